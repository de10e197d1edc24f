"""Run a campaign of the fuzzer on a Dask cluster: here two processes of this machine.

On many machines, `dask scheduler` and `dask worker` start the cluster, and the command
`tinyref fuzz --cluster ADDRESS` runs the campaign. Install the extra `cluster` first.
`python examples/campaign_on_dask.py` tests 20 kernels and prints the number of findings.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from distributed import LocalCluster

from tinyref_fuzz.campaign.campaign import CampaignRequest, run


def main() -> None:
    """Test the kernels of one seed. They are the same on any number of machines."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        request = CampaignRequest(
            "PYTHON",
            Path(folder),
            seed=5,
            policy="small",
            kernels=20,
            cluster=cluster.scheduler_address,
        )
        summary = run(request)
        print(f"{summary.cases} kernels judged, {summary.findings} findings")


if __name__ == "__main__":
    main()
