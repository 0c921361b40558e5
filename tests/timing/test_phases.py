import importlib
import itertools
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from helpers.models.chunked_model import make_model
from helpers.models.small_ssprl import LAYOUT, packed_batch
from helpers.timing.profiles import Time
from mmengine.optim import OptimWrapper

from mmssprl.functional import phases
from mmssprl.timing import stopwatch, training
from mmssprl.timing.result import PHASES
from mmssprl.timing.stopwatch import REST, PhaseClock

# The package has a function of this name.
sinkhorn_module = importlib.import_module("mmssprl.functional.sinkhorn")


class TestPhaseClock:
    def test_inner_phases_take_their_time_from_outer_ones(self):
        time = Time()
        clock = PhaseClock(time.now)
        time.after(7)  # before the step
        with clock.step() as times:
            time.after(1)
            with clock.phase("outer"):
                time.after(10)
                with clock.phase("inner"):
                    time.after(100)
                time.after(20)
            with clock.phase("inner"):
                time.after(200)
            time.after(2)
        time.after(7)  # after it
        assert times == {REST: 3, "outer": 30, "inner": 300}

    def test_waits_for_the_device_before_each_reading(self):
        calls = []
        clock = PhaseClock(
            lambda: calls.append("now") or len(calls), lambda: calls.append("synchronize")
        )
        with clock.step(), clock.phase("a"):
            pass
        assert calls == ["synchronize", "now"] * 4


class TestPhase:
    def test_costs_nothing_while_no_clock_listens(self):
        features = torch.ones(2, requires_grad=True)
        assert phases.phase("a") is phases.phase("b")
        phases.backward_goes_on_as("a", [features])
        assert features._backward_hooks is None
        with pytest.raises(KeyError), phases.timed_by(PhaseClock()):
            raise KeyError
        assert phases.phase("a") is phases.phase("b")

    def test_breaks_no_compiled_graph(self):
        def function(x):
            with phases.phase("a"):
                y = x * 2
            phases.backward_goes_on_as("b", [y])
            return y

        compiled = torch.compile(function, backend="eager", fullgraph=True)
        assert compiled(torch.ones(2)).tolist() == [2, 2]


class TestStep:
    """Every part of a real step moves the clock by itself, and must get exactly its own time."""

    @pytest.mark.parametrize("num_chunks", [1, 2])
    def test_every_part_gets_its_own_time(self, monkeypatch, num_chunks):
        time, spent = Time(), Counter()
        monkeypatch.setattr(stopwatch, "PhaseClock", lambda *given: PhaseClock(time.now))
        model = make_model(num_chunks)
        wrapper = OptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1))
        loop = SimpleNamespace(dataloader=None)
        hook = training.MeasuringHook(None, most=1, max_seconds=1)
        units = (10**i for i in itertools.count())
        in_backward = False

        def costs(phase, backward=None):
            unit = next(units)

            def spend(*args):
                name = backward if backward and in_backward else phase
                spent[name] += unit
                time.after(unit)

            return spend

        def before(owner, name, spend):
            function = getattr(owner, name)
            monkeypatch.setattr(owner, name, lambda *a, **k: (spend(), function(*a, **k))[1])

        before(model.data_preprocessor, "_process", costs(phases.AUGMENT))
        before(model.data_preprocessor, "cast_data", costs(phases.COPY))
        before(sinkhorn_module, "_over_ranks", costs(phases.SINKHORN))
        before(model, "parse_losses", costs(REST))
        before(wrapper.optimizer, "step", costs(phases.OPTIMIZER))
        before(wrapper.optimizer, "zero_grad", costs(phases.OPTIMIZER))
        backward = wrapper.backward

        def enter_backward(*args, **kwargs):
            nonlocal in_backward
            in_backward = True
            backward(*args, **kwargs)
            in_backward = False

        monkeypatch.setattr(wrapper, "backward", enter_backward)
        model.backbone.register_forward_hook(
            costs(phases.BACKBONE_FORWARD, phases.BACKBONE_BACKWARD)
        )
        model.neck.register_forward_hook(costs(phases.HEADS_FORWARD))
        before(model.head, "loss", costs(phases.HEADS_FORWARD))
        in_heads = [*model.neck.parameters(), *model.head.prototypes.parameters()]
        for name, params in (
            (phases.BACKBONE_BACKWARD, list(model.backbone.parameters())),
            (phases.HEADS_BACKWARD, in_heads),
        ):
            spend = costs(name)
            for param in params:
                param.register_hook(spend)

        hook.before_train(SimpleNamespace(model=model, optim_wrapper=wrapper, train_loop=loop))
        with phases.timed_by(hook.clock), hook.clock.step() as times:
            model.train_step(packed_batch(LAYOUT, 4), optim_wrapper=wrapper)
        assert +times == spent
        assert set(spent) == set(PHASES) - {phases.COMMUNICATION}
        assert sum(times.values()) == time.ns

    def test_of_sinkhorn_the_collectives_are_communication(self, monkeypatch):
        time = Time()
        dist = sinkhorn_module.dist
        monkeypatch.setattr(dist, "is_initialized", lambda: True)
        monkeypatch.setattr(dist, "get_world_size", lambda: 1)
        monkeypatch.setattr(
            dist, "all_gather_into_tensor", lambda to, own: time.after(100, to.copy_(own))
        )
        scores, clock = torch.rand(6, 3), PhaseClock(time.now)
        with phases.timed_by(clock), clock.step() as times:
            sinkhorn_module.sinkhorn(scores, num_iters=3)
            # Others', such as SyncBatchNorm's, stay where they are.
            dist.all_gather_into_tensor(scores, scores)
        assert +times == {phases.COMMUNICATION: 300, REST: 100}
