"""A picture asked directly, as in a notebook: a patch outside of programs.

python examples/patch.py
"""

# %%
from pathlib import Path

import viper
from viper import Reasoner, load_profile

table = Path(viper.__file__).parent / "embedded" / "media" / "table.png"
reasoner = Reasoner(load_profile("embedded"))
image_patch = reasoner.patch(table)

# %%
for cube in image_patch.find("cube"):
    print(cube.simple_query("what color is this?"), cube)

# %%
width, height = image_patch.width, image_patch.height
upper_half = image_patch.crop(0, height / 2, width, height)
print("a ball in the upper half:", upper_half.exists("ball"))

# %%
reasoner.close()
