from dplib.accounting import (
    Bounds as Bounds,
)
from dplib.accounting import (
    bounds as bounds,
)
from dplib.accounting import (
    epsilon as epsilon,
)
from dplib.accounting import (
    noise_multiplier as noise_multiplier,
)
from dplib.accounting import (
    selection_epsilon as selection_epsilon,
)
from dplib.annealing import Annealing as Annealing
from dplib.audit import LowerBound as LowerBound
from dplib.audit import audit_guesses as audit_guesses
from dplib.audit import audit_scores as audit_scores
from dplib.checks import ParameterError as ParameterError
from dplib.dpsgd import DPSGD as DPSGD
from dplib.dpsgd import Run as Run
from dplib.dpsgd import train as train
from dplib.exact_loss import discrete_epsilon as discrete_epsilon
from dplib.examples import Data as Data
from dplib.examples import evaluate as evaluate
from dplib.mechanisms import (
    analytic_sigma as analytic_sigma,
)
from dplib.mechanisms import (
    clip_rows as clip_rows,
)
from dplib.mechanisms import (
    gaussian_epsilon as gaussian_epsilon,
)
from dplib.models import mlp as mlp
from dplib.models import small_cnn as small_cnn
from dplib.randomised_response import (
    Response as Response,
)
from dplib.randomised_response import (
    rr as rr,
)
from dplib.randomised_response import (
    rr_top_k as rr_top_k,
)
from dplib.randomised_response import (
    rr_with_prior as rr_with_prior,
)
from dplib.selection import dfs as dfs
from dplib.selection import private_dfs as private_dfs
from dplib.stats import Measured as Measured
from dplib.stats import mean_interval as mean_interval

__version__: str
