package site

import (
	"net/url"

	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/alerts/state"
)

// The page of the silences, and the one with the form that adds one. Its parameter alert is the fingerprint of an alert
// that fires, whose labels are filled in.
const (
	SilenceListPath = "/silences"
	NewSilencePath  = SilenceListPath + "/new"
)

// Silences are those of the engine's own receivers, as pages and API use them. Errors that wrap one of package silence
// are the caller's. All others mean that the disk cannot be written now.
type Silences interface {
	// Silences lists them, the newest first.
	Silences() []silence.Silence
	AddSilence(s silence.Silence) (silence.Silence, error)
	ExpireSilence(id string) (silence.Silence, error)
	// HasReceivers reports whether silences have any effect.
	HasReceivers() bool
	// Previews are the last messages of the receivers, the newest first; false: the settings ask for none.
	Previews() ([]notify.Preview, bool)
	// Silencing returns a function that lists the silences that keep a firing alert quiet now; nil if there are none.
	Silencing() func(a *state.Alert) (ids []string)
	// Inhibiting returns a function that finds the alert, by its fingerprint, that inhibits the notification of a firing
	// one now, "" for none; nil if no alert is inhibited.
	Inhibiting() func(a *state.Alert) (fingerprint string)
}

// Silencing returns a function that lists the silences, by id, that keep a firing alert quiet now. It is never nil.
func (site *Site) Silencing() func(a *state.Alert) []string {
	if site.Opt.Silences != nil {
		if of := site.Opt.Silences.Silencing(); of != nil {
			return of
		}
	}
	return func(*state.Alert) []string { return nil }
}

// Inhibiting returns a function that finds the alert, by its fingerprint, that inhibits the notification of a firing
// one now; "" if there is none, or the reader may not see it. It is never nil.
func (site *Site) Inhibiting() func(a *state.Alert) (fingerprint string) {
	if site.Opt.Silences == nil || site.Opt.Alerts == nil {
		return func(*state.Alert) string { return "" }
	}
	of := site.Opt.Silences.Inhibiting()
	if of == nil {
		return func(*state.Alert) string { return "" }
	}
	visible := map[string]bool{}
	for a := range eachAlert(site.Opt.Alerts()) {
		visible[a.Fingerprint] = true
	}
	return func(a *state.Alert) string {
		if by := of(a); visible[by] {
			return by
		}
		return ""
	}
}

// SilenceHref leads to the form that silences an alert.
func (site *Site) SilenceHref(a *state.Alert) string {
	return site.Opt.ExternalPath + NewSilencePath + "?" + url.Values{"alert": {a.Fingerprint}}.Encode()
}

// silenceDigest changes with the silences that hold.
func (site *Site) silenceDigest() string {
	if site.Opt.Silences == nil {
		return ""
	}
	digest := ""
	now := site.Opt.Now()
	for _, s := range site.Opt.Silences.Silences() {
		if s.State(now) == silence.Active {
			digest += s.ID
		}
	}
	if digest != "" && !site.Opt.Silences.HasReceivers() {
		return ""
	}
	return digest
}
