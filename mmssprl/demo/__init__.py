"""The demonstration: SS-PRL beside random weights and SwAV on generated scenes, over seeds."""
