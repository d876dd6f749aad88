"""What the workers find imported besides: as they import all tests, they need more than a child."""

import gc

gc.disable()
import datasets  # noqa: E402, F401
import openai  # noqa: E402, F401
import scipy.stats  # noqa: E402, F401
import torch_geometric.nn  # noqa: E402, F401

gc.freeze()
gc.enable()
