from pathlib import Path

import numpy as np
import pytest

from chary.envs.physics import import_mujoco, use_old_physics

CAPSULES = """
<mujoco>
  <worldbody>
    <body>
      <freejoint/>
      <geom type="capsule" size="0.1 0.3" density="1000" margin="0.02"/>
    </body>
    <body pos="1 0 0">
      <freejoint/>
      <geom type="capsule" size="0.1" fromto="0 0 0 0.6 0 0" density="1000" margin="0.02"/>
    </body>
    <body pos="2 0 0">
      <freejoint/>
      <geom type="sphere" size="0.2" density="1000" margin="0.02"/>
    </body>
  </worldbody>
</mujoco>
"""


def test_capsules_weigh_what_a_cylinder_half_a_radius_longer_weighs(tmp_path: Path) -> None:
    file = tmp_path / "capsules.xml"
    file.write_text(CAPSULES)
    mujoco = import_mujoco()
    model = mujoco.MjModel.from_xml_path(str(file))
    sphere = model.body_mass[3], model.body_inertia[3].copy()
    use_old_physics(model, file)

    radius, length = 0.1, 0.6 + 0.1
    mass = 1000 * np.pi * radius**2 * length
    across, along = mass * (3 * radius**2 + length**2) / 12, mass * radius**2 / 2
    for body in (1, 2):
        assert model.body_mass[body] == pytest.approx(mass)
        np.testing.assert_allclose(
            sorted(model.body_inertia[body]), sorted([across, across, along])
        )
    np.testing.assert_allclose(model.body_ipos[2], [0.3, 0, 0], atol=1e-12)
    assert model.body_mass[3] == sphere[0]
    np.testing.assert_array_equal(model.body_inertia[3], sphere[1])
    # What MuJoCo derives from the masses follows them.
    assert model.body_subtreemass[0] == pytest.approx(2 * mass + sphere[0])
    np.testing.assert_allclose(model.geom_margin, 0.01)
    assert (model.geom_type[:2] == mujoco.mjtGeom.mjGEOM_CAPSULE).all()
