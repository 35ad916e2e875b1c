"""Attacks on the accepted iterates of annealed DP-SGD: which of the canaries were there?

The attacker knows all data but the coins that put the canaries in, and sees w_0, w_1, ..., w_tau after each accepted
update: what the paper takes to be seen, and no more. Both attacks are called after every query (``follow`` of
:func:`dplib.annealing.train`) and skip rejected ones, at which nothing moves.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dplib import checks
from dplib.devices import JUDGED, SINGLE_GRADIENTS, whole_float32
from dplib.dpsgd import DPSGD
from dplib.examples import Pair

_FAR = 50.0  # log-odds are cut here: larger ones decide nothing more


class GradientAttack:
    """What canaries put into the batches: least squares on the noisy gradients of the accepted updates.

    In units of the clipping norm the sum of b noisy gradients is b times the batches' mean, plus each canary's clipped
    gradient as often as it was drawn, plus noise: sigma^2 for each coordinate, and that of Poisson batches, which
    reference records tell. So the coins are the coefficients of a regression on the canaries' gradients.

    records: n. block: updates for which gradients are taken at one iterate, in their middle. ridge: of the least
    squares, as a share of the variance of a score. ``net`` is read, never changed.
    """

    def __init__(
        self, net: nn.Module, settings: DPSGD, records: int, canaries: Pair, reference: Pair, block: int, ridge=0.1
    ):
        checks.integer(1).check("block", block)
        self.net, self.settings, self.block, self.ridge = net, settings, block, ridge
        self.batch = settings.sample_rate * records
        self.last = flat_weights(net)
        place = self.last.device
        pairs = [map(torch.as_tensor, pair) for pair in (canaries, reference)]
        self.examples = [(x.to(place), y.long().to(place)) for x, y in pairs]
        self.velocity, self.total = torch.zeros_like(self.last), torch.zeros_like(self.last)
        self._scores, self.count, self.seen = self.last.new_zeros(len(canaries[1])), 0, None
        self._look()

    def __call__(self, _weights: Tensor) -> None:
        now = flat_weights(self.net)
        if torch.equal(now, self.last):  # a rejected step, which nobody sees
            return
        velocity = (self.last - now) / self.settings.learning_rate
        noisy = velocity - self.settings.momentum * self.velocity  # the noisy gradient over the batch size
        self.total += noisy * (self.batch / self.settings.max_grad_norm)
        self.velocity, self.last = velocity, now
        self.count += 1
        if self.count == self.block:
            self._score()
        self._look()

    def scores(self) -> np.ndarray:
        """(m,), larger where a canary looks present; with what is left of the last block."""
        if self.count and self.seen:
            self._score()
        return self._scores.cpu().numpy().astype(float)

    def _look(self) -> None:
        """Take the gradients in the middle of a block: they belong to the iterate from which the next update starts."""
        if self.count == self.block // 2:
            self.seen = [self._clipped(x, y) for x, y in self.examples]

    def _clipped(self, x: Tensor, y: Tensor) -> Tensor:
        """Clipped gradients (b, parameters) in units of the clipping norm."""
        gradients = per_example_gradients(self.net, x, y)
        return gradients / gradients.norm(dim=1, keepdim=True).clamp_min(self.settings.max_grad_norm)

    @whole_float32()
    def _score(self) -> None:
        canaries, others = self.seen
        share = self.batch / len(others)  # records of a batch for each reference record
        residual = self.total - self.count * share * others.sum(0)
        # Poisson batches vary by share others' others for each update, and their mean, from few records, is uncertain:
        # sigma^2 (sigma^2 I + spread others' others)^-1 by Woodbury
        spread = share * (1 + self.count * self.batch / len(others))
        inner = others @ others.T
        inner.diagonal().add_(self.settings.noise_multiplier**2 / spread)
        filtered = canaries - (canaries @ others.T) @ torch.linalg.solve(inner, others)
        gram = filtered @ canaries.T
        gram.diagonal().add_(self.ridge)
        self._scores += torch.linalg.solve(gram, filtered @ residual)
        self.total.zero_()
        self.count, self.seen = 0, None


class RuleAttack:
    """What canaries put into J: J has no noise, so each accepted update is an inequality in the coins.

    With the losses of every record of J at both ends of an accepted update, the attacker computes the change of J for
    any guess of the coins, and so the probability (equation (3)) of accepting it. The posterior of the coins is sampled
    one coin at a time (Gibbs), leaving out how likely *some* candidate was to be accepted: that weakens the attack and
    never its verdict. others: J's other records. forced: the share of updates supposed to be accepted whatever J said.
    """

    def __init__(self, net: nn.Module, canaries: Pair, others: Pair, initial_temperature: float, forced: float = 0.05):
        self.net, self.count = net, len(canaries[1])
        self.initial_temperature, self.forced = initial_temperature, forced
        x, y = (torch.as_tensor(np.concatenate([a, b])) for a, b in zip(canaries, others, strict=True))
        self.last = flat_weights(net)
        self.x, self.y = x.to(self.last.device), y.long().to(self.last.device)
        self.losses = [self._losses()]

    def __call__(self, _weights: Tensor) -> None:
        now = flat_weights(self.net)
        if not torch.equal(now, self.last):
            self.last = now
            self.losses.append(self._losses())

    def scores(self, chains: int = 32, sweeps: int = 120, burn_in: int = 40) -> np.ndarray:
        """(m,): mean log-odds of each coin given the others, over the chains and the sweeps after ``burn_in``."""
        changes = np.diff(self.losses, axis=0) / len(self.y)  # of J, by each record: (updates, records)
        known = changes[:, self.count :].sum(axis=1)
        factors = self.initial_temperature * np.maximum(np.arange(len(changes)), 1)
        return log_odds(changes[:, : self.count], known, factors, self.forced, chains, sweeps, burn_in)

    @whole_float32()
    @torch.no_grad()
    def _losses(self) -> np.ndarray:
        pieces = zip(*(part.split(JUDGED.on(self.y.device)) for part in (self.x, self.y)), strict=True)
        return torch.cat([F.cross_entropy(self.net(x), y, reduction="none") for x, y in pieces]).double().cpu().numpy()


def log_odds(
    changes: np.ndarray,
    known: np.ndarray,
    factors: np.ndarray,
    forced: float,
    chains: int = 32,
    sweeps: int = 120,
    burn_in: int = 40,
) -> np.ndarray:
    """Mean log-odds (m,) that a coin is 1, given that updates were accepted; by Gibbs sampling with a fixed seed.

    Args:
        changes: (updates, m), what each canary adds to the change of J where its coin is 1. known: (updates,), what all
            others add. factors: (updates,), Q of equation (3). forced: in (0, 1), updates accepted all the same.
    """
    checks.fraction().check("forced", forced)
    rng = np.random.default_rng(0)
    coins = rng.random((chains, changes.shape[1])) < 0.5
    total = known + coins @ changes.T
    mean = np.zeros(changes.shape[1])

    def accepted(change):
        return np.log(forced + (1 - forced) * np.exp(-factors * np.maximum(change, 0.0)))

    now = accepted(total)
    for sweep in range(sweeps):
        for i in rng.permutation(changes.shape[1]):
            turned = total + np.where(coins[:, i], -1.0, 1.0)[:, None] * changes[:, i]
            then = accepted(turned)
            gain = np.clip((then - now).sum(axis=1), -_FAR, _FAR)
            if sweep >= burn_in:
                mean[i] += np.where(coins[:, i], -gain, gain).mean() / (sweeps - burn_in)
            flips = rng.random(chains) < 1 / (1 + np.exp(-gain))
            coins[flips, i] ^= True
            total[flips], now[flips] = turned[flips], then[flips]
    return mean


@whole_float32()
def per_example_gradients(net: nn.Module, x: Tensor, y: Tensor, piece: int | None = None) -> Tensor:
    """Gradients of the cross-entropy of each example by itself, (b, parameters), parameters in the network's order."""
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def example_loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(net, parameters, (x[None],)), y[None])

    each = vmap(grad(example_loss), in_dims=(None, 0, 0), chunk_size=piece or SINGLE_GRADIENTS.on(x.device))
    gradients = each(parameters, x, y)
    return torch.cat([gradients[name].flatten(1) for name in parameters], 1)


def flat_weights(net: nn.Module) -> Tensor:
    """A copy of all parameters in one vector."""
    return torch.cat([p.detach().flatten() for p in net.parameters()])
