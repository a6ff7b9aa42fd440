"""What a loss, a penalty, a mirror map, a step rule, an optimizer and a conversion are; projections."""
