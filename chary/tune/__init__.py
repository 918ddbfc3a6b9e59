"""Many runs, and choosing among them: sweeps over run folders, and what starts their workers.

What trains one run is `training/`; what compares finished runs on a page is `report/` and `study/`.
"""
