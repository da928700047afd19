"""Several runs at once: in this process, in worker processes of this machine, or on a Dask cluster."""
