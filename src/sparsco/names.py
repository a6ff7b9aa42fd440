"""Stable names of the classes that files may hold.

A model file or a checkpoint names a class by its entry here (``loss/logistic``), never by its module.  So files stay
readable when code moves or a class is renamed.  An entry is never changed or given to another class.  A class that is
not listed cannot be stored, and reading a file makes no other class.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

_ENTRIES = """
loss/squared                  losses:Squared
loss/huber                    losses:Huber
loss/epsilon-insensitive      losses:EpsilonInsensitive
loss/quantile                 losses:Quantile
loss/poisson                  losses:Poisson
loss/logistic                 losses:Logistic
loss/hinge                    losses:Hinge
loss/squared-hinge            losses:SquaredHinge
loss/multinomial              losses:Multinomial

penalty/elastic-net           regularizers:ElasticNet
penalty/weighted-elastic-net  regularizers:WeightedElasticNet
penalty/non-negative          regularizers:NonNegative
penalty/box                   regularizers:Box
penalty/row-group             regularizers:RowGroup
penalty/group-l1              regularizers:GroupL1
penalty/sparse-group          regularizers:SparseGroup
penalty/l1-ball               regularizers:L1Ball
penalty/l2-ball               regularizers:L2Ball
penalty/trace-norm            regularizers:TraceNorm
penalty/auto                  regularizers:Auto
penalty/auto-elastic-net      regularizers:AutoElasticNet

mirror/euclidean              mirrors:Euclidean
mirror/sparse-kaczmarz        mirrors:SparseKaczmarz
mirror/p-norm                 mirrors:PNorm

step/strongly-convex          steps:StronglyConvex
step/convex                   steps:Convex
step/halving                  steps:Halving
step/constant                 steps:Constant
step/inverse-sqrt             steps:InverseSqrt
step/inverse-time             steps:InverseTime
step/in-epochs                optimizers.epoch:InEpochs
step/ball                     optimizers.ball:BallSteps

optimizer/adagrad-fobos       optimizers.adagrad:AdaGradFOBOS
optimizer/adagrad-rda         optimizers.adagrad:AdaGradRDA
optimizer/batch-fobos         optimizers.batch:BatchFOBOS
optimizer/batch-rda           optimizers.batch:BatchRDA
optimizer/epoch-gd            optimizers.epoch:EpochGD
optimizer/epoch-sgd           optimizers.ball:EpochSGD
optimizer/fobos               optimizers.fobos:FOBOS
optimizer/fobos-followed      optimizers.followed:FollowedFOBOS
optimizer/ftrl                optimizers.ftrl:FTRL
optimizer/mirror              optimizers.mirror:MirrorDescent
optimizer/mirror-static       optimizers.mirror:StaticDescent
optimizer/mirror-swept        optimizers.mirror:SweptDescent
optimizer/nftrl               optimizers.nftrl:NFTRL
optimizer/orda                optimizers.orda:ORDA
optimizer/orda-split          optimizers.orda:SplitORDA
optimizer/rda                 optimizers.rda:RDA
optimizer/sgd                 optimizers.sgd:SGD
optimizer/sgd-dense           optimizers.sgd:DenseSGD
optimizer/sgd-harmonic        optimizers.sgd:HarmonicSGD
optimizer/ssg                 optimizers.ssg:SSG
optimizer/truncated-gradient  optimizers.truncated:TruncatedGradient

conversion/last               conversions:Last
conversion/average            conversions:Average
conversion/suffix             conversions:Suffix
conversion/random             conversions:RandomIterate
conversion/last-epoch         conversions:LastEpoch
conversion/average-sl         conversions:AverageSL
conversion/last-sl            conversions:LastSL
conversion/optimal-sl         conversions:OptimalSL
conversion/ocmdi              individual:OCMDI
conversion/scmdi              individual:SCMDI
rounding/threshold            conversions:Threshold
rounding/top-k                conversions:TopK
rounding/sparsify             conversions:Sparsify

preset                        presets:Preset

state/run                     solve:Run
state/grid                    solve:Grid
state/pilot                   steps:Pilot
state/problem                 records:Problem
state/layout                  records:Layout
state/state                   records:State
state/block                   records:Block
state/ball-block              optimizers.ball:BallBlock
state/ball-queue              optimizers.ball:Queue
state/following-block         optimizers.follow:FollowingBlock
state/follow                  optimizers.follow:Follow
state/heap-block              optimizers.followed:HeapBlock
state/swept-block             optimizers.mirror:SweptBlock
state/means                   records:Means
state/gradient-phase          fixed_point:FixedPoint
state/reservoir               reservoir:Reservoir
state/reservoir-table         reservoir:_Table
state/sample                  reservoir:Sample
state/sample-rows             reservoir:SampleRows
state/matrix                  rows:Matrix
state/drift                   drift:Drift
watch/nothing                 records:Nothing
watch/iterates                records:Iterates
watch/followed                records:Followed
watch/gradients               records:Gradients
watch/curvatures              records:Curvatures

targets/values                targets:Values
targets/classes               targets:Classes
targets/one-vs-rest           targets:OneVsRest
targets/repeated              targets:Repeated

features/columns              slots:Columns
features/seen-columns         slots:SeenColumns
features/names                slots:Names

model/converted               _linear:Solved
model/answer                  conversions:Answer
model/linear-classifier       _tasks:LinearClassifier
model/linear-regressor        _tasks:LinearRegressor
model/classifier              estimators:SparseClassifier
model/regressor               estimators:SparseRegressor
model/path                    paths:SparsePath
path/models                   paths:Path
path/judged                   paths:Judged
path/unseen                   paths:Unseen
"""
HOMES = dict(line.split() for line in _ENTRIES.splitlines() if line)
"""Module and class of each name."""


def name_of(kind: type) -> str:
    """Return the stable name of a class; raise a ValueError for a class without one."""
    module, _, place = kind.__module__.partition(".")
    name = _names().get(f"{place}:{kind.__qualname__}") if module == __package__ else None
    if name is None:
        raise ValueError(
            f"{kind.__module__}.{kind.__qualname__} is not a part of sparsco: what has it can be pickled, not saved."
        )
    return name


def class_of(name: Any) -> Any:
    """Return the class of a stable name; raise a TypeError for a name that no class has."""
    if not isinstance(name, str) or name not in HOMES:
        raise TypeError(f"{name} is not known")
    module, _, attribute = HOMES[name].partition(":")
    return getattr(importlib.import_module(f"{__package__}.{module}"), attribute)


@functools.cache
def _names() -> dict[str, str]:
    return {home: name for name, home in HOMES.items()}
