"""How far sound programs stay below the error bound, measured beyond the fixed cases."""
