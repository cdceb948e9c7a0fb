"""Small widgets that more than one view uses: buttons with our icons, notices, switches. Know no model and no chat."""
