"""The statistics that judge every difference. All pure."""
