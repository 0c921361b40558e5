"""A teacher. Its features are kept once and given to a training at every step."""

from .maps import TeacherHook

__all__ = ["TeacherHook"]
