"""MSG's settings, those of its targets and ensembles included."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Gt, Lt

from chary.algos.critics import TargetEntropy
from chary.config import (
    Checked,
    Count,
    Fraction,
    Layers,
    Pessimism,
    Positive,
    Rate,
    Several,
    Share,
    Weight,
    require,
)
from chary.ensembles import EnsembleShape, check_name
from chary.errors import CharyError, unknown_name
from chary.networks.categorical import Bins
from chary.networks.targets import TARGETS

TargetName = Literal["independent", "double-q", "shared-mean", "shared-lcb", "shared-min"]
Modulation = Literal["sign", "gaussian"]
MemberRows = Literal["auto", "whole", "split"]
Bound = Literal["state", "expectation", "relative"]


@dataclass(frozen=True)
class MSGConfig(Checked):
    """Settings of MSG; the defaults are the paper's and its authors'."""

    members: Positive = 64
    """Number N of Q-functions in the ensemble; 1 with --ensemble none, whatever is given."""
    beta: Pessimism = -4.0
    """Pessimism: weight of the ensemble's standard deviation in the policy objective, at most 0."""
    alpha: float = 0.1
    """Weight of the support regulariser H; 0 leaves it (and its cost) out."""
    regulariser_samples: Literal["shared", "own"] = "shared"
    """Whose policy actions H is taken at: one sample for all members, the policy's own, which saves two
    passes of nine; or, as in the paper, a sample of each member's own."""
    ensemble: str = "deep"
    """Kind of ensemble: deep, multihead, mimo, batch, tree, prior, dropout, none (a single Q-function),
    or module:Name of your own."""
    targets: TargetName = "independent"
    """Rule for the TD targets: each member's own, its own from a pair of networks (double-q), or one
    for all members."""
    target_beta: Pessimism | None = None
    """Weight of the standard deviation in shared-lcb's target, at most 0; beta unless given."""
    next_actions: Literal["own", "shared"] = "own"
    """With a shared target: each member brings a next action of its own, as in the authors' code, or all
    take one."""
    min_over: Literal["members", "batch"] = "members"
    """What the policy climbs with shared-min: the smallest value of each state, as the paper says, or
    the single smallest value of the whole batch, as the authors' code has it."""
    double_q: Literal["mean", "sum"] = "mean"
    """TD loss of a double-q member: half the mean over batch and both networks, with a random weight for
    each, as the authors have it; or the sum over both with one weight, as in chary before 0.2."""
    bound: Bound = "state"
    """What the policy climbs: the expectation over states of the bound (Eq. 7), the bound of the
    expectation (Appendix G), or the bound of what an action changes, Q_i(s, pi(s)) - Q_i(s, a) with the
    logged a, from which members' offsets are gone (relative)."""
    ddof: Literal[0, 1] | None = None
    """Subtracted from N in the variance that the bound is made of; by default the authors' choice: 1 for
    multihead and mimo, 0 for all others."""
    hidden: Layers = (256, 256, 256)
    """Sizes of the hidden layers, of the policy and of each Q-function."""
    layer_norm: bool = False
    """Layer normalisation in each hidden layer of the Q-functions, before the ReLU."""
    mimo_repetition: Fraction = 0.5
    """Share of a batch that all members of a mimo ensemble see in the same place."""
    modulation: Modulation = "sign"
    """How the vectors of a batch ensemble start: random signs, or Gaussian around 1."""
    shared_layers: Count = 1
    """Hidden layers that the members of a tree ensemble share."""
    prior_scale: Weight = 1.0
    """Weight of the fixed random networks in a prior ensemble."""
    dropout: Annotated[float, Gt(0.0), Lt(1.0)] = 0.1
    """Share of hidden units that each member of a dropout ensemble does without."""
    batch_size: Positive = 256
    """Transitions in a batch."""
    member_rows: MemberRows = "auto"
    """Rows of a batch that each member learns from: the whole, or a share of its own (split). By default
    as the authors have it: split for batch ensembles, whole for all others."""
    discount: Fraction = 0.99
    """Discount factor gamma."""
    critic_learning_rate: Rate = 3e-4
    """Adam's step size for the Q-functions."""
    policy_learning_rate: Rate = 3e-5
    """Adam's step size for the policy."""
    tau: Share = 0.005
    """Share of the new parameters that enters the target networks at every step."""
    random_weights: bool = True
    """Multiply each squared TD error by a draw from U[0, 2], a different one for every member."""
    warmup_steps: Count = 50_000
    """First steps, in which the policy is cloned from the data while the critics learn as usual."""
    entropy: Literal["tuned", "fixed", "off"] = "tuned"
    """Entropy bonus on the policy: temperature tuned to a target entropy, fixed, or no bonus."""
    temperature: Rate = 1.0
    """Weight of the entropy bonus: where tuning starts, or the fixed value."""
    temperature_learning_rate: Rate = 3e-4
    """Adam's step size for the logarithm of the temperature."""
    target_entropy: TargetEntropy = "auto"
    """Entropy of the policy that tuning aims at, in nats over all action dimensions; auto is minus their
    number."""

    cloning: Weight = 0.0
    """Weight nu of a cloning penalty that stays on the policy, against the bound divided by E|Q|, or by
    E|D| where it is relative; 0 for
    none."""
    cloning_loss: Literal["squared", "likelihood"] = "squared"
    """The penalty: the squared distance between the policy's mode and the logged action, or minus the
    logged action's log-likelihood."""
    policy: Literal["gaussian", "deterministic"] = "gaussian"
    """A squashed Gaussian, or one action a state, with clipped noise on it in TD targets as in TD3; a
    sample of it has the same noise."""
    target_noise: Weight = 0.2
    """Deviation of that noise."""
    target_noise_clip: Weight = 0.5
    """Largest magnitude of that noise."""
    policy_every: Positive = 1
    """Updates of the critics for one of the policy."""
    policy_average: Fraction = 0.0
    """Share of the policy's new weights that enters, at every step, the average that acts; 0 acts by the
    weights themselves."""
    critic_loss: Literal["squared", "hl-gauss"] = "squared"
    """Regression to the TD target by its squared error, or by cross-entropy over bins of values."""
    bins: Several = 101
    """Bins of values for hl-gauss."""
    value_range: tuple[float, float] | Literal["auto"] = "auto"
    """Lowest and highest value of the bins; auto are the least and the most that the data's rewards can
    add up to."""
    sass: Weight = 0.0
    """Weight of the authors' self-supervised loss on the critics' features (theirs is 1), which the
    paper's runs do without."""

    BEFORE: ClassVar[dict[str, Any]] = {
        "next_actions": "shared",
        "double_q": "sum",
        "ddof": 0,
        "member_rows": "whole",
    }
    """What runs did before these were settings."""

    def __post_init__(self) -> None:
        check_name(self.ensemble)
        if self.targets not in TARGETS:
            raise unknown_name("rule for targets", self.targets, TARGETS)
        if self.ensemble == "none":
            object.__setattr__(self, "members", 1)  # the class is frozen, for everybody else
            if TARGETS[self.targets].shared:
                raise CharyError(
                    f"--ensemble none does not go with --targets {self.targets}: one Q-function has "
                    "nobody to share a target with. Use --targets independent or double-q."
                )
        super().__post_init__()
        # Gradients are divided by alpha: it must not vanish among the smallest numbers.
        require(
            self.alpha == 0.0 or self.alpha >= 1e-12, "alpha", self.alpha, "0, or at least 1e-12"
        )
        if self.ensemble == "tree":
            require(
                self.shared_layers <= len(self.hidden),
                "shared-layers",
                self.shared_layers,
                f"from 0 to the number of hidden layers ({len(self.hidden)})",
            )
        if self.policy == "deterministic" and self.entropy != "off":
            raise CharyError(
                "--policy deterministic has no entropy to give a bonus for: add --entropy off."
            )
        self._check_rows()
        self._check_critics()

    def _check_rows(self) -> None:
        if not self.splits_rows:
            return
        require(
            self.batch_size % self.members == 0,
            "batch-size",
            self.batch_size,
            f"a multiple of the number of members ({self.members}) that divide the batch among "
            "them, or use --member-rows whole",
        )
        if TARGETS[self.targets].shared or self.ensemble == "mimo" or ":" in self.ensemble:
            raise CharyError(
                f"--member-rows split does not go with --targets {self.targets} and --ensemble "
                f"{self.ensemble}: members that see different rows have no next value to share, and "
                "mimo and ensembles of your own arrange rows themselves. Use --member-rows whole."
            )
        if self.bound == "relative":
            raise CharyError(
                "--bound relative does not go with --member-rows split: every member must know the "
                "logged actions of all rows. Use --member-rows whole."
            )

    def _check_critics(self) -> None:
        if self.value_range != "auto":
            low, high = self.value_range
            require(low < high, "value-range", self.value_range, "a lower and a higher value")
        if self.critic_loss == "hl-gauss" and ":" in self.ensemble:
            raise CharyError(
                f"--critic-loss hl-gauss does not go with --ensemble {self.ensemble}: an ensemble of "
                "your own gives values, not bins of them."
            )
        if self.sass and self.ensemble not in ("deep", "none"):
            raise CharyError(
                f"--sass does not go with --ensemble {self.ensemble}: it trains the features of "
                "separate networks. Use --ensemble deep."
            )

    @property
    def splits_rows(self) -> bool:
        """Whether the batch is divided among the members."""
        chosen = self.member_rows
        return chosen == "split" or (chosen == "auto" and self.ensemble == "batch")

    def value_bins(self) -> Bins | None:
        """The bins of a critic's values; None where it gives a value itself."""
        if self.critic_loss == "squared":
            return None
        if self.value_range == "auto":
            raise CharyError(
                "--critic-loss hl-gauss needs a range of values: --value-range LOW HIGH, or data to "
                "take it from."
            )
        return Bins(*self.value_range, self.bins)

    def shape(self, observation_size: int, action_size: int) -> EnsembleShape:
        """What the ensemble is built from."""
        return EnsembleShape(
            members=self.members,
            heads=TARGETS[self.targets].heads,
            observation_size=observation_size,
            action_size=action_size,
            hidden=self.hidden,
            layer_norm=self.layer_norm,
            outputs=self.bins if self.critic_loss == "hl-gauss" else 1,
            complete_heads=self.double_q == "mean",
            mimo_repetition=self.mimo_repetition,
            modulation=self.modulation,
            shared_layers=self.shared_layers,
            prior_scale=self.prior_scale,
            dropout=self.dropout,
        )
