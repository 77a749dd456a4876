package site

import (
	"context"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
)

// AcknowledgePath begins the address of the page that acknowledges an incident. The id of the incident follows.
const AcknowledgePath = "/acknowledge/"

// Incidents is the book of incidents as pages and API use it. Errors that wrap one of package incident are the caller's. All
// others mean that the log cannot be written now.
type Incidents interface {
	View() *incident.View
	// Do applies an operation and returns the incident as it is then; nil if the operation was about all incidents.
	Do(ctx context.Context, o incident.Operation) (*incident.Incident, error)
	// Spent is what an incident cost so far of the error budgets.
	Spent(inc *incident.Incident) []incident.Spent
	// Measure measures the incidents detected from from to to against the baselines of the spec.
	Measure(from, to time.Time) incident.Measures
	// VerifyAck checks the query of an address at AcknowledgePath, which permits to acknowledge the incident.
	VerifyAck(id, until, signature string) error
}
