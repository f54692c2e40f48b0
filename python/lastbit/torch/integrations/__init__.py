"""Callbacks for trainers: :class:`lastbit.torch.Probe` for Hugging Face's ``Trainer`` and for Lightning.

Neither library is imported before its callback is asked for.
"""
