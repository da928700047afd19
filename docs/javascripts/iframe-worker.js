// A page opened from disk may not start a worker, and the search of this site is one. Here a hidden frame of the
// page stands in for it, so that searching needs neither a server nor the network.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.documentElement.append(frame)
      const inside = frame.contentWindow
      const load = (source) =>
        new Promise((done, fail) => {
          const script = inside.document.createElement("script")
          script.src = source
          script.onload = done
          script.onerror = () => fail(new Error(`${source} cannot be loaded`))
          inside.document.head.append(script)
        })
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = async (...sources) => {
        for (const source of sources) await load(source)
      }
      this.ready = load(address)
      this.inside = inside
      this.frame = frame
    }

    async postMessage(data) {
      await this.ready
      this.inside.dispatchEvent(new MessageEvent("message", { data }))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
