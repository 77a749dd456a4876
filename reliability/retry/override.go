package retry

// With returns the options with every field replaced that is set in over: how one
// target differs from the rest.
func (o Options) With(over Options) Options {
	set(&o.Base, over.Base)
	set(&o.Cap, over.Cap)
	set(&o.Jitter, over.Jitter)
	set(&o.Spread, over.Spread)
	set(&o.MaxRetries, over.MaxRetries)
	set(&o.MaxElapsed, over.MaxElapsed)
	set(&o.MaxRetryAfter, over.MaxRetryAfter)
	set(&o.Budget, over.Budget)
	set(&o.Limit, over.Limit)
	if over.Classify != nil {
		o.Classify = over.Classify
	}
	if over.OnRetry != nil {
		o.OnRetry = over.OnRetry
	}
	if over.Rand != nil {
		o.Rand = over.Rand
	}
	return o
}

func set[T comparable](dst *T, v T) {
	var zero T
	if v != zero {
		*dst = v
	}
}
