"""Graph kernels: fixed features and a support vector machine."""
