// Package remote is the commands that ask a running engine through its API: status, the gate of deployments, reports,
// dead letters, rate limits, incidents, silences, annotations, blind spots, forgetting a service, and why a Prometheus
// says another number; and what check and explain say of blind spots.
//
// It opens no data directory, and of its commands blindspots alone reads specs. It knows of the engine what the API
// says. Only limits explain reads settings, and asks no engine.
package remote

import (
	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
)

// Commands are all commands of this package.
func Commands(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{newStatus(s), newGate(s), newDLQ(s), newLimits(s), newReport(s), newForget(s), newSilence(s),
		newAnnotate(s), newIncident(s), newAudit(s), newReconcile(s), newEvents(s)}
}
