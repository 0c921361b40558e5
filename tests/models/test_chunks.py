import pytest
import torch
from helpers.models import chunked_model
from torch.autograd.graph import saved_tensors_hooks


def gradients_of(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("cache", [True, False])
def test_batch_statistics_are_those_of_each_chunk(dtype, cache):
    model = chunked_model.make_model(2)
    expected_model = chunked_model.make_model()

    def one_after_the_other(run, crops):
        parts = [run(expected_model.backbone, part) for part in crops.chunk(2, dim=1)]
        return torch.cat(parts, dim=1)

    expected_model.in_chunks = one_after_the_other  # without recomputation
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32, cache_enabled=cache):
        expected = expected_model(chunked_model.crops_of(), mode="loss")
        got = model(chunked_model.crops_of(), mode="loss")
    # Backward outside of autocast, as in mmengine's wrapper.
    for losses in (expected, got):
        sum(losses.values()).backward()
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    grads = map(gradients_of, (model, expected_model))
    torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-7)
    # Once per group and chunk, and not again for the recomputation.
    assert model.backbone.bn1.num_batches_tracked == 2 * len(chunked_model.CROPS)
    buffers = [dict(each.named_buffers()) for each in (model, expected_model)]
    torch.testing.assert_close(*buffers, rtol=0, atol=0)


def test_activations_of_one_chunk_at_a_time_are_kept():
    inputs = chunked_model.crops_of()
    found = []
    for num_chunks in (1, 4):
        model = chunked_model.make_model(num_chunks)
        saved = {}

        def pack(tensor, saved=saved):
            storage = tensor.untyped_storage()
            saved[storage.data_ptr()] = storage.nbytes()
            return tensor

        with saved_tensors_hooks(pack, lambda tensor: tensor):
            losses = model(inputs, mode="loss")  # keeps the saved tensors alive
        for own in (*inputs, *model.parameters(), *model.buffers()):
            saved.pop(own.untyped_storage().data_ptr(), None)
        found.append(sum(saved.values()))
        del losses
    # The rest belongs to neck and head, which always see the whole batch.
    assert found[1] < 0.05 * found[0]
    assert found[0] > 2e6


@pytest.mark.parametrize("value", [0, 2.0])
def test_bad_numbers_of_chunks_are_refused(value):
    with pytest.raises(ValueError, match=f"num_chunks.*{value}"):
        chunked_model.make_model(value)


def test_a_batch_that_chunks_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="num_chunks=3, but got 4; .*batch_size"):
        chunked_model.make_model(3)(chunked_model.crops_of(), mode="loss")


def test_a_last_batch_that_chunks_do_not_divide_is_refused():
    model = chunked_model.make_model(2)
    model.check_training(num_images=10, batch_size=4, last_batch_size=2)
    with pytest.raises(ValueError, match="num_chunks=2, but got 3; .*drop_last=True"):
        model.check_training(num_images=11, batch_size=4, last_batch_size=3)
