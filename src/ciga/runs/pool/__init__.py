"""Several runs at once, in processes of this machine or on a Dask cluster."""
