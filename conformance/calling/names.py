"""What the arguments of attention are called: one table of names for each role, in every common spelling.

Spellings are compared without underscores and in lower case, so that `attn_mask`, `attnMask` and `ATTN_MASK` are one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

CALLED: Mapping[str, str] = {
    "query": "q query queries qs xq q_x query_states query_state q_states query_layer query_input q_input input_q inputs_q "
    "query_tensor q_tensor query_in q_in in_q query_seq q_seq query_heads from_tensor",
    "key": "k key keys ks xk k_x key_states key_state k_states key_layer key_input k_input input_k inputs_k key_tensor "
    "k_tensor key_in k_in in_k key_seq k_seq key_heads",
    "value": "v value values val vals vs xv v_x value_states value_state v_states value_layer value_input v_input input_v "
    "inputs_v value_tensor v_tensor value_in v_in in_v value_seq v_seq value_heads",
    "x": "x xs hidden_states hidden_state hidden hiddens input inputs inp input_tensor input_states input_embeds "
    "inputs_embeds embeddings embeds emb features feats tokens src tgt seq sequence sequences tensor h_in x_in",
    "context": "context contexts encoder_hidden_states encoder_hidden_state key_value_states key_values memory "
    "encoder_output encoder_outputs encoder_out enc_output enc_outputs enc_out encoder_states x_kv kv_x kv_input input_kv "
    "inputs_kv kv_states cross_states cross_attention_states context_states to_tensor",
    "qkv": "qkv qkv_packed packed_qkv mixed_qkv fused_qkv qkv_states qkvs",
    "kv": "kv kv_packed packed_kv mixed_kv fused_kv",
    "mask": "attn_mask attention_mask att_mask self_attn_mask mask masks src_mask mask_bool bool_mask boolean_mask "
    "additive_mask attention_masks memory_mask encoder_mask",
    "key_mask": "key_padding_mask src_key_padding_mask memory_key_padding_mask key_mask k_mask kv_mask context_mask "
    "encoder_attention_mask padding_mask pad_mask",
    "query_mask": "query_mask q_mask query_padding_mask",
    "lengths": "lengths length lens seq_lens seqlens seq_lengths sequence_lengths key_lengths key_lens kv_lengths kv_lens "
    "kv_seq_lens valid_lens valid_len valid_lengths valid_length token_lens",
    "bias": "bias attn_bias attention_bias att_bias position_bias rel_pos_bias relative_position_bias score_bias",
    "causal": "causal is_causal use_causal_mask unidirectional autoregressive",
    "scale": "scale scaling sm_scale softmax_scale attn_scale attention_scale qk_scale scale_factor scaling_factor",
    "window": "window window_size sliding_window local_window local_window_size attention_window",
    "softcap": "softcap soft_cap softcapping logit_softcap logits_softcap logit_soft_cap logits_soft_cap logit_cap "
    "logits_cap attn_logits_soft_cap attn_logit_softcapping",
    "dropout": "dropout dropout_p dropout_rate dropout_prob p_dropout attn_dropout attn_dropout_p attention_dropout "
    "attn_drop att_drop drop_rate drop_prob p_drop",
    "heads": "heads h num_heads num_head n_heads n_head nheads nhead nb_heads head_num heads_num number_of_heads "
    "num_attention_heads attention_heads num_q_heads num_query_heads q_num_heads q_heads n_q_heads",
    "kv_heads": "kv_heads num_kv_heads num_kv_head n_kv_heads n_kv_head num_key_value_heads num_heads_kv kv_num_heads "
    "n_heads_kv nheads_kv",
    "weights": "need_weights needs_weights return_weights output_weights with_weights output_attentions output_attention "
    "return_attentions return_attention return_attn return_attn_weights return_attention_weights return_attn_probs "
    "return_attention_probs return_probs return_attention_scores return_attn_scores need_attn",
    "average": "average_attn_weights average_weights avg_weights avg_attn_weights",
    "per_head": "need_head_weights return_head_weights",
    "lse": "return_lse return_softmax_lse return_logsumexp return_log_sum_exp output_lse",
}  # fmt: skip
"""Roles of the arguments of a call. `x` is one tensor that is query, key and value, `context` one that is key and value,
`qkv` and `kv` several tensors stacked. `weights`, `average`, `per_head` and `lse` ask for a second result."""

BUILT: Mapping[str, str] = {
    "width": "d_model embed_dim embed_dims embed_size embedding_dim embedding_size emb_dim emb_size dim dims d model_dim "
    "dim_model model_size hidden_size hidden_dim hidden_dims hidden num_hiddens n_embd n_embed n_emb n_state n_feat "
    "n_model d_embed d_emb d_hidden query_dim q_dim dim_q d_query query_size in_dim dim_in d_in input_dim input_size "
    "in_features in_channels channels num_channels n_channels features units num_units embed width size",
    "heads": CALLED["heads"] + " num_attn_heads n_attn_heads attn_heads",
    "kv_heads": CALLED["kv_heads"],
    "head_width": "dim_head head_dim head_dims d_k d_v d_q d_kv d_head dim_heads dim_per_head head_size size_per_head "
    "head_width attn_head_dim attention_head_size attention_head_dim num_head_channels head_channels",
    "other_width": "kdim vdim k_dim v_dim kv_dim dim_kv key_size value_size context_dim dim_context cross_attention_dim "
    "cross_dim encoder_dim d_context out_dim dim_out d_out output_dim output_size out_features out_channels inner_dim qk_dim",
    "length": "block_size context_length max_len max_length max_seq_len max_seq_length max_position_embeddings n_ctx",
    "batch_first": "batch_first",
    "config": "config cfg conf configuration args opt opts options params hparams settings",
}  # fmt: skip
"""Roles of the arguments of a constructor. Any name that holds `drop` is a dropout."""

OUTPUTS = (
    "output out outputs attn_output attention_output attn_out hidden_states hidden_state last_hidden_state context "
    "context_layer result y o x"
)
"""Names under which the output is returned."""

SECONDS: Mapping[str, str] = {
    "weights": "weights attn_weights attention_weights attn_weight attention_weight attentions attention attn probs "
    "attn_probs attention_probs attention_scores attn_map attention_map p",
    "lse": "lse softmax_lse logsumexp log_sum_exp softmax_logsumexp lse_out",
}
"""Names under which a second result is returned."""


def plain(name: str) -> str:
    """Return a name as it is compared: without underscores, in lower case."""
    return name.replace("_", "").lower()


def _by_word(table: Mapping[str, str]) -> Mapping[str, tuple[str, int]]:
    """Return role and rank (0 is the clearest) of every spelling."""
    return {plain(word): (role, rank) for role, words in table.items() for rank, word in enumerate(words.split())}


_CALLED, _BUILT = _by_word(CALLED), _by_word(BUILT)
_OUTPUTS = frozenset(map(plain, OUTPUTS.split()))
_SECONDS = {role: frozenset(map(plain, words.split())) for role, words in SECONDS.items()}

_OTHER = re.compile(
    r"past|cache|pos|rot|rope|freq|ind(ex|ices)|idx|gate|sink|state|norm|train|determin|block|layer|name"
)


def called_role(name: str) -> tuple[str, int] | None:
    """Return what an argument of a call holds, and how clear its name is among those of the role (0 the clearest)."""
    return _CALLED.get(plain(name))


def built_role(name: str) -> str | None:
    """Return what an argument of a constructor holds."""
    found = _BUILT.get(plain(name))
    if found is not None:
        return found[0]
    return "dropout" if "drop" in name.lower() else None


def may_be_mask(name: str) -> bool:
    """Say whether an argument of unknown name can be a mask: not if it speaks of caches, positions and the like."""
    return _OTHER.search(name.lower()) is None


def is_output(name: str) -> bool:
    """Say whether a result of this name is the output."""
    return plain(name) in _OUTPUTS


def is_second(name: str, kind: str) -> bool:
    """Say whether a result of this name is a second result of the kind `weights` or `lse`."""
    return plain(name) in _SECONDS[kind]
