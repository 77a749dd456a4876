package delivery

import "time"

// Status is one report and how its delivery goes.
type Status struct {
	Name    string
	Every   string
	Next    time.Time // when it is due for the next time; zero: unknown yet
	Targets []TargetStatus
}

// TargetStatus is one mail address, webhook or folder.
type TargetStatus struct {
	Kind         Kind
	Name         string // an address, host or folder
	Period       string // of the newest report that was due since the target is known; "": none
	Outcome      Outcome
	At           time.Time // of the outcome
	FailingSince time.Time // zero: it works
	Failures     uint64    // since then
	Cause        string    // the last error
	Brief        string    // the same, without what others wrote
}

// Status tells of each report, in the order of the settings.
func (s *Sender) Status() []Status {
	now, ok := s.opt.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Status
	for i := range s.settings.Reports {
		r := &s.settings.Reports[i]
		x := Status{Name: r.Name, Every: string(r.Every)}
		if ok {
			x.Next = r.next(now, s.zone(r)).UTC()
		}
		for _, t := range s.targets {
			if t.report != r {
				continue
			}
			known, f := s.known[t.key], t.failing.Failure()
			x.Targets = append(x.Targets, TargetStatus{
				Kind: t.kind, Name: t.name, Period: known.Period, Outcome: known.Outcome, At: known.At,
				FailingSince: f.Since, Failures: f.Count, Cause: f.Text(), Brief: f.Cause,
			})
		}
		out = append(out, x)
	}
	return out
}

// Unsaved is why the file lags behind; nil if it does not.
func (s *Sender) Unsaved() error {
	return s.saving.Failure().Err
}
