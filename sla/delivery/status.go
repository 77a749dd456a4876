package delivery

import "time"

// Status is one report and how its delivery goes.
type Status struct {
	Name    string         `json:"name"`
	Every   string         `json:"every"`         // week or month
	Next    time.Time      `json:"next,omitzero"` // when it is due for the next time; zero: unknown yet
	Targets []TargetStatus `json:"targets"`
}

// TargetStatus is one mail address, webhook or folder.
type TargetStatus struct {
	Kind         Kind      `json:"kind"`
	Name         string    `json:"name"`             // an address, host or folder
	Period       string    `json:"period,omitempty"` // of the newest report that was due since the target is known
	Outcome      Outcome   `json:"outcome,omitempty"`
	At           time.Time `json:"at,omitzero"` // of the outcome
	FailingSince time.Time `json:"failing_since,omitzero"`
	Failures     uint64    `json:"failures"`        // since then
	Cause        string    `json:"cause,omitempty"` // the last error
	Brief        string    `json:"brief,omitempty"` // the same, without what others wrote
}

// Status tells of each report, in the order of the settings.
func (s *Sender) Status() []Status {
	now, ok := s.opt.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Status
	for i := range s.settings.Reports {
		r := &s.settings.Reports[i]
		x := Status{Name: r.Name, Every: string(r.Every), Targets: []TargetStatus{}}
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
