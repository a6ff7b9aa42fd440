"""Phase one: one file per update rule."""
from .fobos import FOBOS
OPTIMIZERS = {"fobos": FOBOS}
for _n, _m in (("RDA","rda"),("SGD","sgd"),("FTRL","ftrl"),("NFTRL","nftrl")):
    try:
        import importlib
        globals()[_n] = OPTIMIZERS[_m] = getattr(importlib.import_module("."+_m, __name__), _n)
    except ImportError as e:
        print(e)
        globals()[_n] = lambda **k: None
