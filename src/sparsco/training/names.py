"""Stable names of the classes that files may hold.

A model file or a checkpoint names a class by its entry here (``loss/logistic``), never by its module.  So files stay
readable when code moves or a class is renamed.  An entry is never changed or given to another class.  A class that is
not listed cannot be stored, and reading a file makes no other class.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

_PACKAGE = __name__.partition(".")[0]
_ENTRIES = """
loss/squared                  losses:Squared
loss/huber                    losses:Huber
loss/epsilon-insensitive      losses:EpsilonInsensitive
loss/quantile                 losses:Quantile
loss/poisson                  log_link:Poisson
loss/gamma                    log_link:Gamma
loss/tweedie                  log_link:Tweedie
loss/with-offset              offsets:WithOffset
loss/logistic                 losses:Logistic
loss/hinge                    losses:Hinge
loss/squared-hinge            losses:SquaredHinge
loss/multinomial              losses:Multinomial

penalty/elastic-net           penalties.separable:ElasticNet
penalty/weighted-elastic-net  penalties.separable:WeightedElasticNet
penalty/non-negative          penalties.separable:NonNegative
penalty/box                   penalties.constraints:Box
penalty/row-group             penalties.grouped:RowGroup
penalty/group-l1              penalties.grouped:GroupL1
penalty/sparse-group          penalties.grouped:SparseGroup
penalty/l1-ball               penalties.constraints:L1Ball
penalty/l2-ball               penalties.constraints:L2Ball
penalty/trace-norm            penalties.grouped:TraceNorm
penalty/mcp                   penalties.reweighted:MCP
penalty/adaptive              penalties.reweighted:Adaptive
penalty/auto                  penalties.auto:Auto
penalty/auto-elastic-net      penalties.auto:AutoElasticNet
penalty/auto-groups           penalties.auto:AutoGroups

mirror/euclidean              mirrors:Euclidean
mirror/sparse-kaczmarz        mirrors:SparseKaczmarz
mirror/p-norm                 mirrors:PNorm

conversion/choose             conversions.choose:Choose
conversion/path-stability     conversions.path_stability:PathStability
stability/paths               error_control.scores:StabilityPaths
stability/judged              error_control.judged:Judged
choice/scale                  choice.scale:Scale
choice/strength               choice.fitting:Strength
choice/split                  choice.splits:Split
choice/by-row                 choice.splits:ByRow
model/sized                   conversions.choose:SizedModel
model/intervals               inference.record:Intervals

step/strongly-convex          steps:StronglyConvex
step/convex                   steps:Convex
step/halving                  steps:Halving
step/constant                 steps:Constant
step/inverse-sqrt             steps:InverseSqrt
step/inverse-time             steps:InverseTime
step/in-epochs                optimizers.epoch_gd:InEpochs
step/ball                     optimizers.epoch_sgd_l1_ball:BallSteps

optimizer/adagrad-fobos       optimizers.adagrad:AdaGradFOBOS
optimizer/adagrad-rda         optimizers.adagrad:AdaGradRDA
optimizer/batch-fobos         optimizers.minibatch:BatchFOBOS
optimizer/batch-rda           optimizers.minibatch:BatchRDA
optimizer/epoch-gd            optimizers.epoch_gd:EpochGD
optimizer/epoch-sgd           optimizers.epoch_sgd_l1_ball:EpochSGD
optimizer/fobos               optimizers.fobos:FOBOS
optimizer/fobos-followed      optimizers.fobos_tracked:TrackedFOBOS
optimizer/fobos-groups        optimizers.fobos_groups:GroupFOBOS
optimizer/ftrl                optimizers.ftrl:FTRL
optimizer/mirror              optimizers.mirror_descent:MirrorDescent
optimizer/mirror-static       optimizers.mirror_descent:StaticDescent
optimizer/mirror-swept        optimizers.mirror_descent:SweptDescent
optimizer/nftrl               optimizers.nftrl:NFTRL
optimizer/orda                optimizers.orda:ORDA
optimizer/orda-split          optimizers.orda:SplitORDA
optimizer/rda                 optimizers.rda:RDA
optimizer/rda-groups          optimizers.rda_groups:GroupRDA
optimizer/sgd                 optimizers.sgd:SGD
optimizer/sgd-dense           optimizers.sgd:DenseSGD
optimizer/sgd-harmonic        optimizers.sgd:HarmonicSGD
optimizer/ssg                 optimizers.ssg:SSG
optimizer/truncated-gradient  optimizers.truncated_gradient:TruncatedGradient

conversion/last               conversions.averaging:Last
conversion/average            conversions.averaging:Average
conversion/suffix             conversions.averaging:Suffix
conversion/random             conversions.averaging:RandomIterate
conversion/last-epoch         conversions.averaging:LastEpoch
conversion/average-sl         conversions.sparse_learning:AverageSL
conversion/last-sl            conversions.sparse_learning:LastSL
conversion/optimal-sl         conversions.sparse_learning:OptimalSL
conversion/ocmdi              conversions.single_iterate:OCMDI
conversion/scmdi              conversions.single_iterate:SCMDI
rounding/threshold            conversions.rounding:Threshold
rounding/top-k                conversions.rounding:TopK
rounding/sparsify             conversions.rounding:Sparsify
rounding/reweighted           conversions.rounding:Reweighted

preset                        presets:Preset

state/fit                     estimators.fit_state:FitState
state/class-tally             estimators.class_weights:ClassTally
state/path                    selection.path_state:PathState
state/run                     engine.run:Run
state/units                   solver.units:Units
state/long-stream             engine.long_stream:LongStream
state/long-halves             engine.long_halves:LongHalves
state/judged                  choice.candidates:Judged
state/candidate               choice.candidates:Candidate
state/grid                    engine.grid:Grid
state/pilot                   steps:Pilot
state/windows                 engine.windows:Windows
state/overwritten             engine.iterates:Overwritten
state/pilot-rows              engine.pilot_rows:PilotRows
state/problem                 problem.state:Problem
state/layout                  problem.state:Layout
state/state                   problem.state:State
state/block                   problem.state:Block
state/feature-groups          optimizers.feature_groups:FeatureGroups
state/ball-block              optimizers.epoch_sgd_l1_ball:BallBlock
state/ball-queue              optimizers.l1_ball_kernels:Queue
state/following-block         optimizers.iterate_tracking:TrackingBlock
state/follow                  optimizers.iterate_tracking:Tracking
state/heap-block              optimizers.fobos_tracked:HeapBlock
state/swept-block             optimizers.mirror_descent:SweptBlock
state/means                   problem.state:Means
state/gradient-phase          conversions.gradient_phase:FixedPoint
state/reservoir               conversions.reservoir:Reservoir
state/fading-reservoir        conversions.fading_sample:FadingReservoir
state/row-times               estimators.row_times:RowTimes
state/memory                  problem.fading:Memory
state/fading                  problem.fading:Fading
state/reservoir-table         conversions.reservoir:_Table
state/sample                  conversions.reservoir:Sample
state/sample-rows             conversions.reservoir:SampleRows
state/matrix                  data.rows:Matrix
state/drift                   data.row_order:RowOrder
state/drift-test              data.drift:DriftTest
state/trimming                data.trimming:Trimming
mixing/place                  distributed.partitions:Place
mixing/message                distributed.messages:Message
mixing/update                 distributed.messages:Update
mixing/sparse                 distributed.sparse:Sparse
mixing/window                 distributed.progress:Window
mixing/progress               distributed.progress:Progress
watch/nothing                 problem.state:Nothing
watch/iterates                problem.state:Iterates
watch/followed                problem.state:Tracked
watch/gradients               problem.state:Gradients
watch/curvatures              problem.state:Curvatures

targets/values                problem.targets:Values
targets/classes               problem.targets:Classes
targets/one-vs-rest           problem.targets:OneVsRest
targets/repeated              problem.targets:Repeated

table/description             streams.description:Description
table/column                  streams.description:Column
table/described               estimators.described:Described

features/columns              data.slots:Columns
features/seen-columns         data.slots:SeenColumns
features/names                data.slots:Names
features/crossed              data.crosses:Crossed
features/cross                data.cross_rules:Cross
features/text                 text.spec:TextSpec

model/converted               estimators.converted:Converted
model/answer                  conversions.averaging:Answer
model/linear-classifier       estimators.tasks:LinearClassifier
model/linear-regressor        estimators.tasks:LinearRegressor
model/classifier              estimators.sklearn:SparseClassifier
model/regressor               estimators.sklearn:SparseRegressor
model/linear-path             selection.linear_path:LinearPath
model/path                    selection.paths:SparsePath
path/models                   selection.path:Path
path/judged                   selection.judging:Judged
path/unseen                   selection.judging:Unseen
"""
HOMES = dict(line.split() for line in _ENTRIES.splitlines() if line)
"""The module and class of each name."""


def name_of(kind: type) -> str:
    """Return the stable name of a class; raise a ValueError for a class without one."""
    package, _, module = kind.__module__.partition(".")
    name = _names().get(f"{module}:{kind.__qualname__}") if package == _PACKAGE else None
    if name is None:
        raise ValueError(
            f"{kind.__module__}.{kind.__qualname__} is not a part of sparsco: an object that holds it can "
            "be pickled, but not saved."
        )
    return name


def class_of(name: Any) -> Any:
    """Return the class of a stable name; raise a TypeError for a name that no class has."""
    if not isinstance(name, str) or name not in HOMES:
        raise TypeError(f"{name} is not known")
    module, _, attribute = HOMES[name].partition(":")
    return getattr(importlib.import_module(f"{_PACKAGE}.{module}"), attribute)


@functools.cache
def _names() -> dict[str, str]:
    return {home: name for name, home in HOMES.items()}
