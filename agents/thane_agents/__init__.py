"""Agents of a workload: each is a LangGraph graph that continues where it was when its pod is gone."""
