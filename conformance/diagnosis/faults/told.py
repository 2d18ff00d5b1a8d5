"""Faults that the failing rule itself shows: what it saw needs no matching."""

from __future__ import annotations

from .fault import Told

_TRACE = "Leave it as it was, or put it back before returning."

TOLD = (
    # What a call leaves behind
    Told("{0}_changed_in_place", "The caller's {0} is written to.", "Work on a copy.", "PURITY-001", r"(?s)^(\w+) after the call differs"),
    Told("result_aliases_{0}", "The output lies in the memory of the {0}.", "Return a tensor of its own.", "PURITY-\\d+", r"the output lies in the memory of the (\w+)"),
    Told("output_buffer_reused", "A later call overwrites an earlier result.", "Allocate the result anew, or return a copy.", "PURITY-004", r"after a later call"),
    Told("{0}_changed_for_the_process", "A call changes the {0} of the whole process.", _TRACE, "PURITY-\\d+", r"the call changed the ([\w ']+)"),
    Told("gradient_mode_switched", "A call switches gradients on or off for what follows.", _TRACE, "PURITY-\\d+", r"switched gradients on or off"),
    Told("module_left_in_another_mode", "A call leaves the module in another mode.", "Do not call train() or eval() in forward.", "PURITY-010", r"left the module in"),
    Told("stored_gradient_changed", "A call changes or clears stored gradients.", "Leave .grad to the optimiser.", "PURITY-010", r"changed the gradient"),
    Told("parameters_changed_by_a_call", "A call changes parameters or buffers.", "Write to no parameter in forward.", "PURITY-010", r"after the call"),
    Told("upstream_gradient_changed_in_place", "The backward pass writes into the upstream gradient.", "Work on a copy.", "GRADIENT-013", ""),
    # Second order
    Told("second_order_gradient_missing", "The gradient cannot be differentiated again.", "Write the backward pass with differentiable operations (or declare gradient='once').", ".*", r"cannot be differentiated again"),
    # Results of another form
    Told("output_of_another_dtype", "The output has another dtype than the inputs.", "Cast it back.", ".*", r"^output has dtype"),
    Told("second_result_of_another_dtype", "The second result has another dtype than the inputs.", "Cast it back.", ".*", r"^(?:second result|weights).* has dtype"),
    Told("weights_missing_in_eval", "Weights are returned in train mode and not in eval mode.", "Return them in both.", "WEIGHTS-\\d+", r"in train mode and not in eval"),
    Told("second_result_missing", "No second result is returned.", "Return it, or declare second=None.", "WEIGHTS-\\d+", r"no second result was returned"),
    # Options
    Told("dropout_not_applied_to_weights", "Dropout acts on something else than single weights.", "Drop weights, before they meet the value.", "OPTIONS-009", r"weights are not dropped whole"),
    Told("dropout_not_rescaled", "The kept weights are not divided by 1 - q, or the rate is another.", "Divide what is kept by 1 - q.", "OPTIONS-009", r"the mean output is"),
    Told("dropout_rate_wrong", "Another share than q is dropped.", "Drop each weight with probability q.", "OPTIONS-009", r"outputs spread"),
    Told("dropout_shared", "The same weights are dropped in several rows, heads or batch elements.", "Draw for every weight.", "OPTIONS-009", r"the same weights are dropped"),
    Told("dropout_ignored", "Dropout drops nothing.", "Drop weights when a rate is passed.", "OPTIONS-\\d+", r"nothing is dropped"),
    Told("dropout_ignores_the_seed", "The same seed gives other results.", "Draw from torch's generator.", "OPTIONS-\\d+", r"the same seed gave two different"),
    # Errors that are not raised
    Told("lengths_not_checked", "Inputs of lengths or widths that do not fit are cut or padded.", "Raise an error.", "ERRORS-00[127]", "instead of an error"),
    Told("batches_not_checked", "Batches that do not fit are cut, repeated or folded.", "Raise an error.", "ERRORS-003", "instead of an error"),
    Told("heads_not_checked", "Head counts that do not fit are accepted.", "Raise an error.", "ERRORS-004", "instead of an error"),
    Told("mask_shape_not_checked", "A mask that does not fit is cropped, padded, reshaped or ignored.", "Raise an error.", "ERRORS-005", "instead of an error"),
    Told("model_width_not_checked", "A width that the heads do not divide mixes positions.", "Raise an error.", "ERRORS-006", ""),
    Told("input_width_not_checked", "Inputs of another width than the module are accepted.", "Raise an error.", "ERRORS-008", "instead of an error"),
    # Modules
    Told("parameter_not_registered", "{0} is no registered parameter.", "Assign an nn.Parameter to the module.", "PROJECTION-004", r"(\S+) is a buffer"),
    Told("parameter_frozen", "{0} asks for no gradient.", "Build it with requires_grad=True.", "PROJECTION-004", r"(\S+) asks for no gradient"),
    Told("parameters_shared", "{0} and {1} are one parameter.", "Give each projection its own.", "PROJECTION-004", r"(\S+) and (\S+) lie in the same memory"),
    Told("instances_share_parameters", "Two instances share {0}.", "Make parameters in __init__.", "PROJECTION-008", r"share the parameter (\S+)"),
    Told("copy_shares_parameters", "A copy shares parameters with the original.", "Copy them.", "PROJECTION-006", r"of the original after"),
    Told("dtype_not_followed", "Something stays in the dtype in which it was made.", "Register constants as buffers, or make them like the input.", "PROJECTION-007", r"after \.to"),
    # Other ways to call
    Told("compiled_path_differs", "The result differs when it is compiled or exported.", "Take one path, or hold both to the same tests.", "PORTABILITY-00[123]", ""),
    Told("vmap_differs", "The result differs under vmap.", "Map query, key, value and mask alike.", "PORTABILITY-004", ""),
    Told("inference_path_differs", "The result differs under inference_mode.", "Take one path, or hold both to the same tests.", "PORTABILITY-005", ""),
    Told("autocast_differs", "The result under autocast is further off than its dtype explains.", "Keep softmax and sums in fp32.", "PORTABILITY-006", ""),
    Told("forward_mode_wrong", "The derivative in forward mode is wrong.", "Derive the jvp anew, or leave it out.", "PORTABILITY-007", ""),
    Told("functional_gradient_wrong", "The gradient by torch.func differs.", "Keep state out of forward and backward.", "PORTABILITY-00[89]", ""),
    # NaN
    Told("nan_hidden", "A NaN in a query gives numbers.", "Let NaN pass.", "NUMERIC-012", ""),
)  # fmt: skip

HINTS = (
    Told("state_of_earlier_calls_kept", "The result depends on the calls before it.", "Keep no mask, length, dtype or value from one call to the next.", "PURITY-00[38]|PURITY-01[14]|CAUSAL-005", ""),
    Told("{0}_gradient_missing", "No gradient reaches the {0}.", "Keep it in the graph: no detach(), .data or item() on the way.", ".*", r"no gradient (?:reaches|is left in) the (?:parameter )?([\w.]+?)(?: when it alone asks for one)?$"),
    Told("result_detached", "The {0} is returned without its graph.", "Compute it with gradients enabled, without detach().", ".*", r"the (\w+) does not require a gradient although"),
    Told("not_deterministic", "The same call gives other bits.", "Sum in a fixed order and draw nothing (or declare deterministic='no').", "PURITY-002|PURITY-009", r"again"),
    Told("second_order_gradient_wrong", "The second derivative is wrong.", "Differentiate through what the backward pass saved (or declare gradient='once').", "GRADIENT-\\d+", r"second derivative of"),
    Told("dropout_differs_in_backward", "The backward pass drops other weights, or scales them otherwise, than the forward pass.", "Save the dropped weights.", "OPTIONS-012", ""),
    Told("dropout_active_in_eval", "Eval mode is not the same each time.", "Drop nothing in eval mode: pass dropout only if self.training.", "PURITY-002|PURITY-007", r"again"),
    Told("instances_share_state", "A call of one instance changes another.", "Keep state in the instance.", "PROJECTION-008", r"another instance"),
    Told("state_dict_incomplete", "What the state_dict holds does not make the same module.", "Register every parameter and buffer.", "PROJECTION-005", ""),
    Told("copy_differs", "A copy gives another result.", "Keep everything in parameters and buffers.", "PROJECTION-006", r"^output of a"),
    Told("old_parameters_used", "Something derived from old parameters is kept.", "Derive it in every call.", "PROJECTION-009", ""),
    Told("batch_elements_mixed", "The result of a batch element depends on the others.", "Keep batch elements apart.", "SYMMETRY-001", ""),
    Told("nan_spreads", "A NaN in one query reaches other rows.", "Keep rows apart.", "NUMERIC-011", ""),
    Told("hidden_keys_leak", "What a hidden key or value holds changes the result.", "Fill hidden scores with -inf, before the softmax.", "MASK-008", "after changing hidden"),
    Told("future_leaks", "Later keys change earlier rows.", "Hide keys j > i.", "CAUSAL-004", "rows before the change"),
)  # fmt: skip
"""What the rule shows where nothing more exact explains the failure."""

RAISED = (
    Told("output_of_another_shape", "The output has another shape than the definition's.", "Return (..., L, E), axes of size one included.", ".*", r"Mismatch in shape: grad_output|grad_outputs?\[0\] has a shape"),
    Told("fill_does_not_fit_the_dtype", "The fill of hidden scores does not fit the dtype.", "Fill with -inf, or with torch.finfo(dtype).min.", ".*", r"without overflow"),
    Told("mask_kind_refused", "A mask of this kind is refused.", "Accept it, or declare the kinds that are (mask=...).", "MASK-\\d+|PURITY-\\d+", r"(?i)mask"),
    Told("cannot_be_copied", "The module cannot be copied or pickled after a call.", "Keep no graph, lambda or handle as an attribute.", "PROJECTION-006", r"(?i)deepcopy|pickle|leaf|lambda|copy"),
    Told("reads_storage_as_contiguous", "Inputs that are views are refused.", "Use reshape, or call contiguous().", ".*", r"view size is not compatible|must be contiguous|contiguous"),
    Told("dtypes_mixed", "Something stays in another dtype.", "Make constants like the input; register buffers.", ".*", r"(?i)same dtype|expected .*dtype|Double but found|to have the same dtype"),
    Told("written_over_before_backward", "A tensor that the backward pass needs is written over.", "Work on a copy.", ".*", r"modified by an inplace operation"),
    Told("second_order_gradient_missing", "The gradient cannot be differentiated again.", "Write the backward pass with differentiable operations (or declare gradient='once').", "GRADIENT-\\d+", r"once_differentiable|does not require grad|differentiate"),
)  # fmt: skip
