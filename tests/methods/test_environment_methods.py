"""Each penalty against a plain loop over samples and environments, and whom its gradient reaches."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from ciga.data import Batch, load
from ciga.methods.base import Context, Method, Step, make, methods
from ciga.methods.cnc import draw_pairs, pairs
from ciga.methods.coral import moment_distances
from ciga.methods.eiil import infer_environments
from ciga.methods.environments import scale_gradient
from ciga.methods.groupdro import GroupNetwork
from ciga.methods.matchdg import MatchNetwork, nearest
from ciga.nn import Backbone, GraphNetwork, Spec
from ciga.nn.networks import InvariantNetwork
from ciga.nn.reversal import reverse
from ciga.training.loop import fit
from ciga.training.schedule import Training

ENVIRONMENTS = 3
LATE = {"epoch": 50, "number": 50, "total": 100}
#: What each method's history shows: its own terms and no other method's.
TERMS = {
    "erm": {"risk"},
    "irm": {"risk", "irm"},
    "vrex": {"risk", "variance"},
    "ib-irm": {"risk", "irm", "bottleneck"},
    "eiil": {"risk", "irm"},
    "groupdro": {"worst"},
    "dann": {"risk", "adversary"},
    "coral": {"risk", "mean", "covariance"},
    "matchdg": {"risk", "distance"},
    "cnc": {"risk", "contrast"},
    "invrat": {"risk", "gap", "aware"},
}


@pytest.fixture(scope="module")
def batch() -> Batch:
    splits = load("spmotif-struc", train_per_class=8, val_per_class=1, test_per_class=1)
    return splits.train.batch(slice(None))


@pytest.fixture
def env(batch: Batch) -> Tensor:
    return torch.randint(ENVIRONMENTS, batch.y.shape, generator=torch.Generator().manual_seed(4))


def network_of(method: Method, environments: int = ENVIRONMENTS) -> nn.Module:
    torch.manual_seed(0)
    return method.network(Spec(4, 0, 3, environments), Backbone(layers=2, width=8))


def by_environment(values: Tensor, env: Tensor) -> list[Tensor]:
    """The mean of each environment, by a loop."""
    out = []
    for e in sorted(set(env.tolist())):
        mine = [values[i] for i in range(len(env)) if env[i] == e]
        out.append(sum(mine[1:], mine[0]) / len(mine))
    return out


def gradient_of(term: Tensor, module: nn.Module) -> Tensor:
    """The gradient of a term by all parameters of a module, as one vector; zeros where it has none."""
    parameters = list(module.parameters())
    found = torch.autograd.grad(
        term, parameters, retain_graph=True, materialize_grads=True, allow_unused=True
    )
    return torch.cat([g.flatten() for g in found])


@pytest.mark.parametrize("name", TERMS)
def test_a_method_has_its_own_terms_only(name: str, batch: Batch, env: Tensor) -> None:
    method = make(name)
    step = Step(**LATE, side={"env": env, "reference": env})
    assert set(method.loss(network_of(method), batch, step)) == TERMS[name]


@pytest.mark.parametrize("name", ["erm", "dann", "coral", "matchdg"])
def test_their_risk_is_the_mean_over_graphs_and_nothing_else(name: str, batch: Batch, env: Tensor) -> None:
    method = make(name)
    network = network_of(method)
    logits = network(batch)
    slow = sum(cross_entropy(logits[i], batch.y[i]) for i in range(batch.num_graphs)) / batch.num_graphs
    terms = method.loss(network, batch, Step(**LATE, side={"env": env}))
    torch.testing.assert_close(terms["risk"], slow)


@pytest.mark.parametrize("name", [n for n in TERMS if n != "erm"])
def test_hundreds_of_environments_stay_finite(name: str, batch: Batch) -> None:
    method = make(name)
    network = network_of(method, 500)
    for epoch in (0, 50):
        side = {"env": torch.arange(batch.num_graphs) * 20, "reference": batch.y.roll(1)}
        terms = method.loss(network, batch, Step(epoch, epoch, 100, side))
        sum(terms.values(), torch.zeros(())).backward()
        assert all(t.isfinite() for t in terms.values())
        assert all(p.grad.isfinite().all() for p in network.parameters() if p.grad is not None)


# ---------------------------------------------------------------- IRM, V-REx, IB-IRM


def test_irm_is_risk_plus_weighted_squares(batch: Batch, env: Tensor) -> None:
    method = make("irm", {"penalty": 7.0, "delay": 5})
    network = network_of(method)
    logits = network(batch)
    risks = by_environment(cross_entropy(logits, batch.y, reduction="none"), env)
    gradients = by_environment(scale_gradient(logits, batch.y), env)
    terms = method.loss(network, batch, Step(number=5, side={"env": env}))
    torch.testing.assert_close(terms["risk"], sum(risks) / ENVIRONMENTS)
    torch.testing.assert_close(terms["irm"], 7 * sum(g**2 for g in gradients))
    assert method.loss(network, batch, Step(number=4, side={"env": env}))["irm"] == 0


def test_vrex_is_a_variance_with_a_gradient(batch: Batch, env: Tensor) -> None:
    method = make("vrex", {"penalty": 3.0})
    network = network_of(method)
    risks = by_environment(cross_entropy(network(batch), batch.y, reduction="none"), env)
    mean = sum(risks) / ENVIRONMENTS
    terms = method.loss(network, batch, Step(side={"env": env}))
    torch.testing.assert_close(terms["variance"], 3 * sum((r - mean) ** 2 for r in risks) / ENVIRONMENTS)
    assert gradient_of(terms["variance"], network).abs().max() > 1e-5
    alone = method.loss(network, batch, Step(side={"env": torch.zeros_like(env)}))
    assert alone["variance"] == 0


def test_ib_irm_weighs_each_penalty_by_its_own_weight(batch: Batch, env: Tensor) -> None:
    weights = [(1.0, 1.0), (1.0, 5.0), (5.0, 1.0)]
    found = []
    for penalty, bottleneck in weights:
        method = make("ib-irm", {"penalty": penalty, "bottleneck": bottleneck})
        network = network_of(method)
        found.append(method.loss(network, batch, Step(side={"env": env})))
    assert isinstance(network, GraphNetwork)
    z = network.represent(batch)
    columns = [[z[i, j] for i in range(len(z))] for j in range(z.size(1))]
    variances = [sum((v - sum(c) / len(c)) ** 2 for v in c) / len(c) for c in columns]
    torch.testing.assert_close(found[0]["bottleneck"], sum(variances) / len(variances))
    torch.testing.assert_close(found[1]["bottleneck"], 5 * found[0]["bottleneck"])
    torch.testing.assert_close(found[1]["irm"], found[0]["irm"])
    torch.testing.assert_close(found[2]["irm"], 5 * found[0]["irm"])
    torch.testing.assert_close(found[2]["bottleneck"], found[0]["bottleneck"])


@pytest.mark.parametrize(
    ("name", "term"),
    [("irm", "irm"), ("vrex", "variance"), ("ib-irm", "irm"), ("ib-irm", "bottleneck"), ("eiil", "irm")],
)
def test_a_penalty_waits_as_many_steps_as_it_is_told(name: str, term: str, batch: Batch, env: Tensor) -> None:
    method = make(name, {"delay": 5})
    network = network_of(method)
    found = [
        float(method.loss(network, batch, Step(number=n, side={"env": env}))[term].detach()) for n in (4, 5)
    ]
    assert found[0] == 0 < found[1]


# ---------------------------------------------------------------- EIIL


def soft_ascent(logits: Tensor, y: Tensor) -> Tensor:
    """EIIL's own way: climb the penalty over soft assignments until they no longer move."""
    torch.manual_seed(0)
    score = torch.randn(len(y), dtype=logits.dtype, requires_grad=True)
    optimizer = torch.optim.Adam([score], lr=0.1)
    before = torch.full_like(score, 0.5)
    for step in range(3000):
        share = score.sigmoid()
        if step % 100 == 99:
            if (share - before).abs().max() < 1e-4:
                break
            before = share.detach()
        penalty = torch.zeros((), dtype=logits.dtype)
        for weight in (share, 1 - share):
            scale = torch.ones((), dtype=logits.dtype, requires_grad=True)
            risk = (weight * cross_entropy(scale * logits, y, reduction="none")).mean()
            penalty = penalty + torch.autograd.grad(risk, scale, create_graph=True)[0] ** 2
        optimizer.zero_grad()
        (-penalty).backward()
        optimizer.step()
    return (score > 0).long()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_eiil_gives_what_the_ascent_converges_to(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(60, 3, generator=generator, dtype=torch.double)
    y = torch.randint(3, (60,), generator=generator)
    exact, slow = infer_environments(logits, y), soft_ascent(logits, y)
    assert exact.equal(slow) or exact.equal(1 - slow)


def test_eiil_assigns_samples_not_labels_and_takes_any_logits() -> None:
    logits = torch.tensor([[3.0, 0.0], [0.0, 3.0], [3.0, 0.0], [0.0, 3.0]])
    y = torch.tensor([0, 0, 1, 1])
    env = infer_environments(logits, y)
    assert env.tolist() == [0, 1, 1, 0]  # by whether the reference is right, within each class
    assert infer_environments(logits + 100, y).equal(env)  # logits are no log-probabilities


@pytest.mark.parametrize("classes", [2, 4])
def test_one_of_eiils_environments_holds_mistakes_only(classes: int) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(500, classes, generator=generator)
    y = torch.randint(classes, (500,), generator=generator)
    mistake, env = logits.argmax(1) != y, infer_environments(logits, y).bool()
    assert bool(mistake[env].all())
    assert torch.equal(mistake, env) == (classes == 2)


def test_eiil_takes_the_risk_over_samples_and_the_penalty_over_environments(batch: Batch) -> None:
    """The reference's mistakes are few: as one of two environments they must not be half of the risk."""
    env = (torch.arange(batch.num_graphs) < 3).long()
    method = make("eiil", {"penalty": 7.0})
    network = network_of(method)
    logits = network(batch)
    risks = [cross_entropy(logits[i], batch.y[i]) for i in range(batch.num_graphs)]
    gradients = by_environment(scale_gradient(logits, batch.y), env)
    terms = method.loss(network, batch, Step(side={"env": env}))
    torch.testing.assert_close(terms["risk"], sum(risks) / len(risks))
    torch.testing.assert_close(terms["irm"], 7 * sum(g**2 for g in gradients))


@pytest.mark.parametrize("name", ["eiil", "cnc"])
def test_no_ood_label_reaches_the_reference(name: str) -> None:
    """Other labels in the shifted parts, the same reference; other labels in `id_val` may change it."""
    splits = load("spmotif-struc", train_per_class=8, val_per_class=8, test_per_class=2)
    found = []
    for parts in ((), ("ood_val", "ood_test"), ("id_val",)):
        other = {n: splits[n].labelled((splits[n].y + 1) % 3) for n in parts}
        seen: dict[str, Any] = {}

        class Spy(methods[name]):  # type: ignore[misc]
            def prepare(self, context: Context, seen: dict[str, Any] = seen) -> dict[str, Tensor]:
                seen["logits"] = context.predict(context.reference(0))
                return super().prepare(context)

        training = Training(epochs=10, warmup=10, batch_size=8, lr=0.02)
        changed = replace(splits, parts={**splits.parts, **other})
        fit(Spy(), changed, backbone=Backbone(layers=2, width=8), training=training, device="cpu")
        found.append(seen["logits"])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_the_reference_is_asked_without_dropout() -> None:
    """Dropout makes mistakes of its own: environments and pairs would be chance."""
    splits = load("spmotif-struc", train_per_class=8, val_per_class=4, test_per_class=2)
    said: list[Tensor] = []

    class Spy(methods["cnc"]):  # type: ignore[misc]
        def prepare(self, context: Context) -> dict[str, Tensor]:
            network = context.reference(1)
            said.extend(context.predict(network) for _ in range(2))
            assert not network.training
            return super().prepare(context)

    fit(Spy(), splits, backbone=Backbone(layers=2, width=8, dropout=0.5), training=Training(epochs=1))
    assert torch.equal(*said)


# ---------------------------------------------------------------- GroupDRO, DANN


def test_groupdro_moves_its_weights_as_the_rule_says(batch: Batch) -> None:
    method = make("groupdro", {"rate": 0.5})
    network = network_of(method, 4)
    assert isinstance(network, GroupNetwork)
    env = torch.arange(batch.num_graphs) % 2 * 2  # environments 0 and 2 of 4
    weight = [0.25] * 4
    for _ in range(3):
        risks = by_environment(cross_entropy(network(batch), batch.y, reduction="none"), env)
        for e, risk in zip((0, 2), risks, strict=True):
            weight[e] *= math.exp(0.5 * risk.item())
        weight = [w / sum(weight) for w in weight]
        worst = method.loss(network, batch, Step(side={"env": env}))["worst"]
        expected = (weight[0] * risks[0] + weight[2] * risks[1]) / (weight[0] + weight[2])
        torch.testing.assert_close(worst, expected)
        torch.testing.assert_close(network.log_weight.exp(), torch.tensor(weight))
    assert "log_weight" in network.state_dict()


def test_groupdros_weights_carry_no_gradient(batch: Batch) -> None:
    """The network descends the weighted risks; it must not move the weights, which climb them."""
    method = make("groupdro", {"rate": 2.0})
    network = network_of(method, 2)
    assert isinstance(network, GroupNetwork)
    env = torch.arange(batch.num_graphs) % 2
    worst = method.loss(network, batch, Step(side={"env": env}))["worst"]
    risks = by_environment(cross_entropy(network(batch), batch.y, reduction="none"), env)
    fixed = network.log_weight.exp().tolist()
    expected = fixed[0] * risks[0] + fixed[1] * risks[1]
    torch.testing.assert_close(gradient_of(worst, network), gradient_of(expected, network))


def test_reversal_turns_the_gradient_around() -> None:
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = reverse(x, 0.5)
    assert y.equal(x)
    (y**2).sum().backward()
    torch.testing.assert_close(x.grad, -0.5 * 2 * x.detach())


def test_dann_reverses_for_the_encoder_alone(batch: Batch, env: Tensor) -> None:
    method = make("dann", {"penalty": 2.0})
    network = network_of(method)
    assert isinstance(network, GraphNetwork)
    adversary = method.loss(network, batch, Step(number=30, total=100, side={"env": env}))["adversary"]
    z = network.represent(batch)
    guesses = network.discriminator(z)
    plain = sum(cross_entropy(guesses[i], env[i]) for i in range(len(env))) / len(env)
    torch.testing.assert_close(adversary, plain)
    ramp = 2 / (1 + math.exp(-3.0)) - 1
    wanted = -2.0 * ramp * gradient_of(plain, network.encoder)
    torch.testing.assert_close(gradient_of(adversary, network.encoder), wanted)
    assert wanted.abs().max() > 1e-4
    torch.testing.assert_close(
        gradient_of(adversary, network.discriminator), gradient_of(plain, network.discriminator)
    )


# ---------------------------------------------------------------- CORAL


def slow_moments(z: Tensor, env: Tensor) -> tuple[Tensor, Tensor]:
    groups = [z[env == e] for e in sorted(set(env.tolist()))]
    means = [((a.mean(0) - b.mean(0)) ** 2).mean() for a, b in combinations(groups, 2)]
    spread = [g.T.cov() for g in groups if len(g) > 1]
    covariances = [((a - b) ** 2).mean() for a, b in combinations(spread, 2)]
    zero = torch.zeros((), dtype=z.dtype)
    return sum(means, zero) / max(len(means), 1), sum(covariances, zero) / max(len(covariances), 1)


@pytest.mark.parametrize("groups", ["00000000", "00001111", "05522270", "00012345"])
def test_coral_aligns_every_pair_of_environments(groups: str) -> None:
    env = torch.tensor([int(e) for e in groups])
    z = torch.randn(8, 5, dtype=torch.double, generator=torch.Generator().manual_seed(0), requires_grad=True)
    for fast, slow in zip(moment_distances(z, env), slow_moments(z, env), strict=True):
        torch.testing.assert_close(fast, slow)
        if slow.requires_grad:
            gradients = [torch.autograd.grad(d, z, retain_graph=True)[0] for d in (fast, slow)]
            torch.testing.assert_close(*gradients)


def test_corals_penalty_weighs_means_and_covariances_alike(batch: Batch, env: Tensor) -> None:
    method = make("coral", {"penalty": 7.0})
    network = network_of(method)
    assert isinstance(network, GraphNetwork)
    terms = method.loss(network, batch, Step(side={"env": env}))
    for name, slow in zip(("mean", "covariance"), slow_moments(network.represent(batch), env), strict=True):
        assert slow > 1e-6
        torch.testing.assert_close(terms[name], 7 * slow, rtol=1e-4, atol=1e-8)


# ---------------------------------------------------------------- MatchDG, CnC


def test_nearest_is_the_closest_allowed_one() -> None:
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(12, 4, generator=generator)
    allowed = torch.rand(12, 12, generator=generator) < 0.4
    allowed[3] = False
    found = nearest(u, allowed)
    for i in range(12):
        choices = [j for j in range(12) if allowed[i, j]]
        closest = max(choices, key=lambda j: float(torch.cosine_similarity(u[i], u[j], 0)), default=None)
        assert found[i].nonzero().flatten().tolist() == ([] if closest is None else [closest])


def test_matchdg_learns_to_match_and_then_trains(batch: Batch, env: Tensor) -> None:
    method = make("matchdg", {"match_epochs": 2, "penalty": 3.0})
    network = network_of(method)
    assert isinstance(network, MatchNetwork)
    for epoch in (0, 1):
        terms = method.loss(network, batch, Step(epoch, side={"env": env}))
        assert gradient_of(terms["match"], network.matcher).abs().max() > 1e-5
        assert gradient_of(terms["match"], network.encoder).abs().max() == 0
    frozen = {k: v.clone() for k, v in network.matcher.state_dict().items()}
    terms = method.loss(network, batch, Step(2, side={"env": env}))
    assert all(v.equal(frozen[k]) for k, v in network.matcher.state_dict().items())
    assert gradient_of(terms["distance"], network.matcher).abs().max() == 0
    assert gradient_of(terms["distance"], network.encoder).abs().max() > 1e-5
    z, u = network.represent(batch), normalize(network.match_space(batch).detach(), dim=1)
    total, matched = torch.zeros(()), 0
    for i in range(batch.num_graphs):
        others = [j for j in range(batch.num_graphs) if batch.y[j] == batch.y[i] and env[j] != env[i]]
        if others:
            j = max(others, key=lambda j: float(u[i] @ u[j]))
            total, matched = total + ((z[i] - z[j]) ** 2).mean(), matched + 1
    torch.testing.assert_close(terms["distance"], 3 * total / matched)


@pytest.mark.parametrize("epoch", [0, 1])
def test_the_matchers_contrast_by_a_loop(batch: Batch, env: Tensor, epoch: int) -> None:
    """At first all graphs of the class and another environment are positives, then the nearest; the others
    in the denominator are those of other classes."""
    method = make("matchdg", {"match_epochs": 2, "temperature": 0.5})
    network = network_of(method)
    assert isinstance(network, MatchNetwork)
    u, y = normalize(network.match_space(batch), dim=1), batch.y
    everyone, losses = range(batch.num_graphs), []
    for i in everyone:
        positives = [j for j in everyone if y[j] == y[i] and env[j] != env[i]]
        if epoch and positives:
            positives = [max(positives, key=lambda j: float((u[i] @ u[j]).detach()))]
        if positives:
            others = [j for j in everyone if y[j] != y[i]]
            total = sum((u[i] @ u[j] / 0.5).exp() for j in positives + others)
            losses.append(-sum(((u[i] @ u[j] / 0.5).exp() / total).log() for j in positives) / len(positives))
    terms = method.loss(network, batch, Step(epoch, side={"env": env}))
    torch.testing.assert_close(terms["match"], sum(losses) / len(losses))


def test_cnc_contrasts_across_the_references_predictions(batch: Batch) -> None:
    reference = torch.randint(3, batch.y.shape, generator=torch.Generator().manual_seed(2))
    method = make("cnc", {"alpha": 2.0, "temperature": 0.5})
    network = network_of(method)
    assert isinstance(network, GraphNetwork)
    z = normalize(network.represent(batch), dim=1)
    y, losses = batch.y, []
    for i in range(len(y)):
        positives = [j for j in range(len(y)) if y[j] == y[i] and reference[j] != reference[i]]
        negatives = [j for j in range(len(y)) if y[j] != y[i] and reference[j] == reference[i]]
        if positives:
            total = sum((z[i] @ z[j] / 0.5).exp() for j in positives + negatives)
            losses.append(-sum(((z[i] @ z[j] / 0.5).exp() / total).log() for j in positives) / len(positives))
    terms = method.loss(network, batch, Step(side={"reference": reference}))
    torch.testing.assert_close(terms["contrast"], 2 * sum(losses) / len(losses))
    assert gradient_of(terms["contrast"], network.encoder).abs().max() > 1e-5


def test_cnc_pairs_depend_on_the_anchor() -> None:
    y, reference = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 1, 0])
    positive, negative = pairs(y, reference)
    assert positive.nonzero().tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]
    assert negative.nonzero().tolist() == [[0, 3], [1, 2], [2, 1], [3, 0]]


def test_cnc_draws_pairs_from_the_whole_training_set() -> None:
    """Every positive (negative) of an anchor is as likely as any other, wherever in the set it stands."""
    torch.manual_seed(0)
    y = torch.randint(3, (40,))
    reference = torch.where(torch.rand(40) < 0.6, y, torch.randint(3, (40,)))
    rows = torch.tensor([3, 17, 29])
    for i in rows.tolist():
        drawn = draw_pairs(y, reference, torch.tensor([i]), 4000)
        positives = [j for j in range(40) if y[j] == y[i] and reference[j] != reference[i]]
        negatives = [j for j in range(40) if y[j] != y[i] and reference[j] == reference[i]]
        for found, wanted in zip(drawn, (positives, negatives), strict=True):
            assert sorted(set(found.tolist())) == wanted
            share = torch.bincount(found, minlength=40)[wanted] / 4000
            assert (share - 1 / len(wanted)).abs().max() < 0.05
    alone = torch.tensor([0, 0, 1])
    assert [len(p) for p in draw_pairs(alone, alone, torch.tensor([0, 2]), 5)] == [0, 0]  # nothing to draw


def test_cnc_has_pairs_where_mistakes_are_rare() -> None:
    """One mistake in 60 graphs: a batch of four seldom holds it, the drawn pairs always do."""
    y = torch.arange(60) % 3
    reference = y.clone()
    reference[7] = (y[7] + 1) % 3
    method, side = make("cnc"), {"label": y, "reference": reference}
    torch.manual_seed(1)
    batches = list(method.compose(torch.randperm(60), 4, side) or [])
    assert sorted(torch.cat([rows[:4] for rows in batches]).tolist()) == list(range(60))
    paired = [bool(pairs(y[rows], reference[rows])[0].any()) for rows in batches]
    of_its_class = [bool((y[rows[:4]] == y[7]).any()) for rows in batches]
    assert paired == of_its_class
    assert sum(paired) > 10


def test_cncs_risk_is_that_of_the_graphs_whose_turn_it_is(batch: Batch) -> None:
    method = make("cnc")
    network = network_of(method)
    logits = network(batch)
    terms = method.loss(network, batch, Step(side={"reference": batch.y.roll(1)}, own=5))
    expected = sum(cross_entropy(logits[i], batch.y[i]) for i in range(5)) / 5
    torch.testing.assert_close(terms["risk"], expected)


def test_cncs_reference_is_trained_for_its_own_number_of_epochs() -> None:
    data = load("spmotif-struc", train_per_class=4, val_per_class=2, test_per_class=1)
    asked: list[int] = []

    def reference(epochs: int) -> nn.Module:
        asked.append(epochs)
        return nn.Identity()

    def predict(network: nn.Module) -> Tensor:
        return torch.eye(3)[(data.train.y + 1) % 3]

    context = Context(data, Spec.of(data), Backbone(), 1, reference, predict)
    for epochs in (0, 5):
        make("cnc", {"reference_epochs": epochs}).prepare(context)
        make("eiil", {"reference_epochs": epochs}).prepare(context)
    assert asked == [0, 0, 5, 5]
    assert make("cnc").reference_epochs == 5  # under-trained unless told otherwise


# ---------------------------------------------------------------- InvRat


@pytest.mark.parametrize("gap_is_open", [True, False])
def test_invrat_plays_the_game_of_its_equation(batch: Batch, env: Tensor, gap_is_open: bool) -> None:
    method = make("invrat", {"penalty": 4.0})
    network = network_of(method)
    assert isinstance(network, InvariantNetwork)
    with torch.no_grad():  # make the environment-blind head bad, or good
        network.head[-1].bias.copy_(torch.tensor([9.0, 0.0, -9.0]) if gap_is_open else torch.zeros(3))
        network.head[-1].weight.zero_()
        if not gap_is_open:
            network.aware[-1].bias.copy_(torch.tensor([9.0, 0.0, -9.0]))
    terms = method.loss(network, batch, Step(side={"env": env}))
    prediction = network.predict(network.split(batch))
    blind = cross_entropy(prediction.logits, batch.y)
    aware = cross_entropy(network.predict_aware(prediction.representation, env), batch.y)
    gap = 4 * (blind - aware).clamp(min=0)
    assert bool(gap > 0) is gap_is_open
    torch.testing.assert_close(terms["risk"], blind)
    torch.testing.assert_close(terms["gap"], gap)
    torch.testing.assert_close(terms["aware"], aware)
    total = sum(terms.values(), torch.zeros(()))
    for player in (network.featurizer, network.extractor, network.classifier, network.head):
        torch.testing.assert_close(gradient_of(total, player), gradient_of(blind + gap, player))
    for player in (network.aware, network.environment):
        torch.testing.assert_close(gradient_of(total, player), gradient_of(aware, player))
    assert gradient_of(aware, network.environment).abs().max() > 1e-6
