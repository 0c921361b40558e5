"""Which time goes to which phase of a step, to the nanosecond."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from profiles import Time, parts_of, save_images
from torch import nn

from mmssprl.models import sinkhorn_head
from mmssprl.profiling import step_phases as phases
from mmssprl.profiling.clock import REST, PhaseClock, replaced


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

    def test_the_rest_of_a_phase_can_go_on_as_another(self):
        time = Time()
        clock = PhaseClock(time.now)
        with clock.step() as times:
            with clock.phase("first"):
                time.after(1)
                clock.go_on_as("second")
                time.after(10)
            time.after(100)
        assert times == {"first": 1, "second": 10, REST: 100}

    def test_phases_sum_to_the_step_to_the_nanosecond(self):
        draw = np.random.default_rng(0)
        readings = []

        def now():
            readings.append((readings[-1] if readings else 0) + int(draw.integers(1, 10**9)))
            return readings[-1]

        clock = PhaseClock(now)
        with clock.step() as times:
            for name in "abcab":
                with clock.phase(name), clock.phase("inner"):
                    clock.go_on_as(name * 2)
        assert sum(times.values()) == readings[-1] - readings[0]
        assert len(readings) > 20
        assert min(times.values()) > 0

    def test_waits_for_the_device_before_each_reading(self):
        calls = []
        clock = PhaseClock(
            lambda: calls.append("now") or len(calls), lambda: calls.append("synchronize")
        )
        with clock.step(), clock.phase("a"):
            pass
        assert calls == ["synchronize", "now"] * 4

    def test_reads_nothing_outside_a_step(self):
        clock = PhaseClock(lambda: 1 // 0, lambda: 1 // 0)
        with clock.phase("a"):
            clock.go_on_as("b")
        assert clock.timed(lambda x: x + 1, "a")(2) == 3

    def test_an_error_closes_its_phases(self):
        time = Time()
        clock = PhaseClock(time.now)

        def fail():
            time.after(1)
            raise KeyError

        with clock.step() as times:
            with pytest.raises(KeyError):
                clock.timed(fail, "a")()
            time.after(10)
        assert times == {"a": 1, REST: 10}


@pytest.mark.parametrize("own", [True, False])
def test_replaced_leaves_an_object_as_it_was(own):
    owner = nn.Linear(2, 2)
    if own:
        owner.forward = owner.forward
    before = dict(vars(owner))
    with replaced(owner, "forward", lambda x: "new"):
        assert owner(None) == "new"
    assert vars(owner) == before
    with pytest.raises(ZeroDivisionError), replaced(owner, "forward", lambda x: 1 // x):
        owner(0)
    assert vars(owner) == before
    assert owner(torch.ones(1, 2)).shape == (1, 2)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("images"))


class TestPhasesOf:
    """Every part of a real step moves the clock by itself, and must get exactly its own time."""

    @pytest.mark.parametrize("num_chunks", [1, 2])
    def test_every_part_gets_its_own_time(self, images, monkeypatch, num_chunks):
        time, spent = Time(), Counter()
        parts, batch = parts_of(images, **{"model.num_chunks": num_chunks})
        model, wrapper = parts.core, parts.optim_wrapper
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
            monkeypatch.setattr(
                owner, name, lambda *a, **k: (spend(), function(*a, **k))[1], raising=True
            )

        before(model.data_preprocessor, "forward", costs(phases.AUGMENT))
        before(model.data_preprocessor, "cast_data", costs(phases.COPY))
        before(sinkhorn_head, "sinkhorn_jointly", costs(phases.SINKHORN))
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

        clock = PhaseClock(time.now)
        with phases.phases_of(clock, model, wrapper), clock.step() as times:
            model.train_step(batch, optim_wrapper=wrapper)
        assert +times == spent
        assert set(spent) == set(phases.PHASES) - {phases.COMMUNICATION}
        assert sum(times.values()) == time.ns

    def test_a_backbone_without_gradients_has_no_backward(self, images):
        parts, batch = parts_of(images)
        parts.core.backbone.requires_grad_(False)
        clock = PhaseClock()
        with phases.phases_of(clock, parts.core, parts.optim_wrapper), clock.step() as times:
            parts.core.train_step(batch, optim_wrapper=parts.optim_wrapper)
        assert phases.BACKBONE_BACKWARD not in times
        assert times[phases.HEADS_BACKWARD] > 0

    def test_of_sinkhorn_the_collectives_are_communication(self, images, monkeypatch):
        time = Time()
        gather = torch.distributed.all_gather_into_tensor
        parts, _ = parts_of(images)
        with monkeypatch.context() as patch:
            patch.setattr(torch.distributed, "is_initialized", lambda: True)
            patch.setattr(torch.distributed, "all_gather_into_tensor", lambda: time.after(100))
            patch.setattr(
                sinkhorn_head,
                "sinkhorn_jointly",
                lambda: time.after(10, torch.distributed.all_gather_into_tensor()),
            )
            clock = PhaseClock(time.now)
            with phases.phases_of(clock, parts.core, parts.optim_wrapper), clock.step() as times:
                sinkhorn_head.sinkhorn_jointly()
                # Others', such as SyncBatchNorm's, stay where they are.
                torch.distributed.all_gather_into_tensor()
        assert times == {phases.SINKHORN: 10, phases.COMMUNICATION: 100, REST: 100}
        assert torch.distributed.all_gather_into_tensor is gather

    def test_is_undone_and_changes_no_step(self, images):
        states = []
        for is_timed in (False, True):
            parts, batch = parts_of(images)
            owners = (parts.core, parts.core.data_preprocessor, parts.optim_wrapper)
            before = [set(vars(owner)) for owner in owners]
            original = sinkhorn_head.sinkhorn_jointly
            clock = PhaseClock()
            if is_timed:
                with phases.phases_of(clock, parts.core, parts.optim_wrapper), clock.step():
                    assert sinkhorn_head.sinkhorn_jointly is not original
                    parts.core.train_step(batch, optim_wrapper=parts.optim_wrapper)
            else:
                parts.core.train_step(batch, optim_wrapper=parts.optim_wrapper)
            assert [set(vars(owner)) for owner in owners] == before
            assert sinkhorn_head.sinkhorn_jointly is original
            states.append(parts.core.state_dict())
        for name, value in states[0].items():
            assert torch.equal(value, states[1][name]), name
