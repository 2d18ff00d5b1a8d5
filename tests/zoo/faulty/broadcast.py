"""Faulty broadcasting of a mask: the right mask reaches the wrong head, sample, query or key."""

from __future__ import annotations

import torch
from torch import Tensor

from ..mutant import BATCH, BROADCAST, FILL, INDEX, Population
from .parts import HIDDEN, Pair, attend, fill_hidden, positions, scaled

mutants = Population()


@mutants.add("MASK", "NUMERIC", kind=BROADCAST, repeats="B062 B063 B071")
def first_head_mask_for_all(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Uses the mask of head 0 for every head."""
    return attend(query, key, value, mask[..., :1, :, :] if mask is not None and mask.dim() > 3 else mask)


@mutants.add("MASK", "NUMERIC", kind=BROADCAST, repeats="B069")
def first_sample_mask_for_all(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Uses the mask of sample 0 for the whole batch."""
    leading = mask is not None and mask.dim() > 2 and mask.dim() == query.dim()
    return attend(query, key, value, mask[:1] if mask is not None and leading else mask)


@mutants.add("MASK", "NUMERIC", kind=BROADCAST)
def first_row_mask_for_all(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Uses the mask of query 0 for every query."""
    return attend(query, key, value, mask[..., :1, :] if mask is not None and mask.dim() > 1 else mask)


@mutants.add("MASK", "NUMERIC", kind=BROADCAST)
def mask_heads_united(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Lets every head attend what any head may attend."""
    if mask is not None and mask.dim() > 3:
        mask = (mask != 0).any(dim=-3, keepdim=True)
    return attend(query, key, value, mask)


@mutants.add("MASK", "NUMERIC", kind=BROADCAST, repeats="B065")
def square_mask_transposed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Transposes a mask with as many queries as keys, which a symmetrical one does not show."""
    square = mask is not None and mask.dim() > 1 and mask.size(-1) == mask.size(-2)
    return attend(query, key, value, mask.transpose(-2, -1) if mask is not None and square else mask)


@mutants.add("MASK", "NUMERIC", kind=BROADCAST, repeats="B065")
def oblong_mask_reshaped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads a mask (L, S) with L != S as the transpose of a (S, L) block of memory."""
    if mask is not None and mask.dim() > 1 and mask.size(-1) != mask.size(-2):
        rows, keys = mask.shape[-2:]
        mask = mask.reshape(*mask.shape[:-2], keys, rows).transpose(-2, -1)
    return attend(query, key, value, mask)


@mutants.add("MASK", "NUMERIC", kind=FILL, repeats="B055 B009")
def padding_mask_on_query_axis(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Puts a key padding mask (..., 1, S) on the query axis where there are as many queries as keys."""
    padding = mask is not None and mask.dim() > 1 and mask.size(-2) == 1 and mask.size(-1) == query.size(-2)
    return attend(query, key, value, mask.transpose(-2, -1) if mask is not None and padding else mask)


@mutants.add("MASK", "SYMMETRY", kind=BROADCAST, repeats="B067")
def query_rows_zeroed_by_key_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Zeroes the output of query i where a key padding mask (..., 1, S) hides key i."""
    output, weights = attend(query, key, value, mask)
    if mask is not None and mask.dim() > 1 and mask.size(-2) == 1 and mask.size(-1) > 1:
        rows = min(output.size(-2), mask.size(-1))
        hidden = torch.nn.functional.pad((mask[..., :rows] == 0).transpose(-2, -1), (0, 0, 0, output.size(-2) - rows))
        output = output.masked_fill(hidden, 0.0)
    return output, weights


@mutants.add("MASK", "SYMMETRY", kind=BROADCAST, repeats="B058 B059 B060 B061")
def mask_tiled_over_heads(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Expands a mask (B, 1, L, S) to B*H in tile order, so that head h of sample b gets mask (b*H + h) mod B."""
    if mask is not None and query.dim() == 4 and mask.dim() == 4 and mask.size(1) == 1:
        batch, heads = query.shape[:2]
        if mask.size(0) == batch:
            mask = mask.squeeze(1).repeat(heads, 1, 1).reshape(batch, heads, *mask.shape[-2:])
    return attend(query, key, value, mask)


@mutants.add("MASK", "SYMMETRY", kind=BROADCAST, repeats="B061 B068")
def per_head_mask_flattened_head_first(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Flattens a mask (B, H, L, S) head first and the scores sample first."""
    if mask is not None and mask.dim() == 4 and mask.size(0) > 1 and mask.size(1) > 1:
        mask = mask.transpose(0, 1).reshape(mask.shape)
    return attend(query, key, value, mask)


@mutants.add("MASK", "SYMMETRY", kind=BROADCAST, repeats="B058 B067")
def mask_of_the_next_sample(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Gives every sample the mask of its successor."""
    if mask is not None and mask.dim() > 2 and mask.dim() == query.dim():
        mask = mask.roll(-1, dims=0)
    return attend(query, key, value, mask)


@mutants.add("MASK", "SYMMETRY", kind=BROADCAST)
def mask_of_the_next_head(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Gives every head the mask of its successor."""
    return attend(query, key, value, mask.roll(-1, dims=-3) if mask is not None and mask.dim() > 3 else mask)


@mutants.add("MASK", "SYMMETRY", kind=BROADCAST)
def sample_mask_used_for_heads(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Gives head h the mask of sample h where a mask (B, 1, ., S) meets as many heads as samples."""
    if mask is not None and mask.dim() == 4 and query.dim() == 4:
        batch, heads = query.shape[:2]
        if mask.size(1) == 1 and mask.size(0) == batch == heads:
            mask = mask.transpose(0, 1)
    return attend(query, key, value, mask)


@mutants.add("MASK", "SYMMETRY", kind=BROADCAST)
def mask_aligned_from_the_left(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads a mask (H, L, S) as one mask per sample where there are as many heads as samples."""
    if mask is not None and mask.dim() == 3 and query.dim() == 4 and mask.size(0) == query.size(0):
        mask = mask.unsqueeze(1)
    return attend(query, key, value, mask)


@mutants.add("MASK", "NUMERIC", kind=INDEX, repeats="B187 B189")
def mask_row_wraps_at_16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Looks up the mask row of query i at i mod 16."""
    if mask is not None and mask.dim() > 1 and mask.size(-2) > 16:
        mask = mask[..., torch.arange(mask.size(-2)) % 16, :]
    return attend(query, key, value, mask)


@mutants.add("MASK", "NUMERIC", kind=INDEX, repeats="B188")
def mask_ignored_past_64_keys(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Applies the mask to the first 64 keys only."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill((mask == 0) & (positions(scores, -1) < 64), HIDDEN)

    return attend(query, key, value, mask, hide=hide)


@mutants.add("MASK", "SYMMETRY", kind=BATCH, repeats="B247 B248 B249 numerics 24 numerics 29")
def packed_documents_leak_by_one(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Lets a query see the key after each visible one, so that a document sees the first token of the next."""
    if mask is not None and mask.dim():
        mask = mask != 0
        mask = mask | torch.nn.functional.pad(mask, (1, 0))[..., :-1]
    return attend(query, key, value, mask)


@mutants.add("MASK", "NUMERIC", kind=BROADCAST, repeats="numerics 24")
def mask_shifted_by_one_key(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Shifts the mask by one key."""
    return attend(query, key, value, None if mask is None else mask.roll(1, dims=-1))


@mutants.add("MASK", "SYMMETRY", kind=BATCH, repeats="B243 B245 numerics 9")
def hidden_keys_change_the_temperature(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Sharpens the scores of a row by the share of its keys that are hidden."""
    growth: Tensor | float = 1.0
    if mask is not None and key.size(-2):
        visible = (mask != 0).expand(*mask.shape[:-1], key.size(-2)).sum(dim=-1, keepdim=True).clamp_min(1)
        growth = (key.size(-2) / visible.to(query.dtype)) ** 0.25
    return attend(query, key, value, mask, score=lambda query, key: growth * scaled(query, key))


@mutants.add("MASK", "SYMMETRY", kind=BATCH, repeats="B241 B244 numerics 9")
def padding_read_as_lengths(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Counts the visible keys of a row and attends that many from the left, which suits right padding only."""
    if mask is not None and mask.dim():
        lengths = (mask != 0).expand(*mask.shape[:-1], key.size(-2)).sum(dim=-1, keepdim=True)
        mask = torch.arange(key.size(-2)) < lengths
    return attend(query, key, value, mask)


@mutants.add("MASK", "SYMMETRY", kind=BATCH, repeats="B243")
def mask_united_over_the_batch(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Pads every sample to the longest of the batch: a key that any sample sees, all see."""
    if mask is not None and mask.dim() > 2 and mask.dim() == query.dim():
        mask = (mask != 0).any(dim=0, keepdim=True)
    return attend(query, key, value, mask)


@mutants.add("MASK", "SYMMETRY", kind=BROADCAST)
def mask_hides_for_the_whole_row_block(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Skips a key block of 4 for every query as soon as the first query of the block of 4 sees none of it."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        filled = fill_hidden(scores, mask)
        if mask is None or filled.numel() == 0:
            return filled
        hidden = (filled <= HIDDEN / 2).clone()
        for start in range(0, hidden.size(-1), 4):
            tile = hidden[..., start : start + 4]
            for row in range(0, hidden.size(-2), 4):
                tile[..., row : row + 4, :] |= tile[..., row : row + 1, :].all(dim=-1, keepdim=True)
        return filled.masked_fill(hidden, HIDDEN)

    return attend(query, key, value, mask, hide=hide)
