package config

import (
	"os"

	"github.com/sloengine/sloengine/ingest/source/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// OutboxSource is an outbox table of PostgreSQL.
type OutboxSource struct {
	postgres.Options `yaml:",inline"`
	outbox.Settings  `yaml:",inline"`
}

// outboxConnections are for reading and marking, and for measuring.
const outboxConnections = 2

func (o *OutboxSource) prefill(*Config) {
	o.MaxConnections, o.ConnectTimeout, o.ApplicationName = outboxConnections, postgres.DefaultConnectTimeout,
		postgres.DefaultApplicationName
	o.Settings = outbox.Defaults()
}

func (o *OutboxSource) check(f *yamldoc.Decoder, path string) {
	if f.Broken(path) {
		return
	}
	problems(f, path, "", o.Options.Validate())
	host, _ := os.Hostname()
	settingProblems(f, path, o.Settings.Validate(host))
}
