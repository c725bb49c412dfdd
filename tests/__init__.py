import os
import sys

from tests.support.paths import ENGINES, ENGINES_PATH

sys.path.append(str(ENGINES))
os.environ["PYTHONPATH"] = ENGINES_PATH
