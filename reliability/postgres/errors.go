package postgres

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// causes are the answers that need words of their own, by the beginning of their SQLSTATE. The longest one counts.
var causes = map[string]struct {
	kind  remote.Kind
	class retry.Class
	text  string
}{
	"28": {remote.KindCredentials, retry.ClassBlocked,
		"the server refuses the user name or password, or pg_hba.conf does not let the user in"},
	"42501": {remote.KindCredentials, retry.ClassBlocked, "the user is not authorized (GRANT what is missing)"},
	"3D000": {remote.KindTopology, retry.ClassBlocked, "the database does not exist (create it)"},
	"3F000": {remote.KindTopology, retry.ClassBlocked, "the schema does not exist (create it)"},
	"42P01": {remote.KindTopology, retry.ClassBlocked, "the table does not exist (create it)"},
	"42703": {remote.KindTopology, retry.ClassBlocked, "a column does not exist (add it)"},
	"42P05": {remote.KindConnection, retry.ClassBlocked, pooled},
	"26000": {remote.KindConnection, retry.ClassBlocked, pooled},
	"25006": {remote.KindConnection, retry.ClassBlocked,
		"the server takes no writes (connect to the primary, for example with target_session_attrs=read-write)"},
	"42": {remote.KindTopology, retry.ClassBlocked, ""},
	"53": {remote.KindConnection, retry.ClassOverload, "the server lacks resources"},
	"53300": {remote.KindConnection, retry.ClassOverload,
		"the server has too many connections (raise max_connections, or lower that of its clients)"},
	"53100": {remote.KindConnection, retry.ClassTransient, "the disk of the server is full"},
	"08":    {remote.KindConnection, retry.ClassTransient, ""},
	"40":    {remote.KindConnection, retry.ClassTransient, ""}, // deadlocks and serialization failures
	"55":    {remote.KindConnection, retry.ClassTransient, ""}, // locks
	"57":    {remote.KindConnection, retry.ClassTransient, ""}, // the server stops or starts
	"57014": {remote.KindConnection, retry.ClassTimeout, "the statement was canceled"},
	"58":    {remote.KindConnection, retry.ClassTransient, ""},
	"XX":    {remote.KindConnection, retry.ClassTransient, ""},
	"22":    {remote.KindMessage, retry.ClassPermanent, ""},
	"23":    {remote.KindMessage, retry.ClassPermanent, ""},
}

const pooled = "a pooler between changes the session (set transaction_pooling: true)"

// Explain converts an error of the library to a *remote.BrokerError. A nil error stays nil, and a *BrokerError is
// returned unchanged.
func Explain(err error) error {
	var known *remote.BrokerError
	if err == nil || errors.As(err, &known) {
		return err
	}
	made := func(kind remote.Kind, class retry.Class, text string) error {
		return &remote.BrokerError{Broker: "postgres", Kind: kind, Class: class, Text: text, Err: err}
	}
	if text := remote.ExplainTLS(err); text != "" {
		return made(remote.KindTLS, retry.ClassBlocked, inDSN.Replace(text))
	}
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		if strings.Contains(err.Error(), "refused TLS connection") {
			return made(remote.KindTLS, retry.ClassBlocked, "the server does not offer TLS (change sslmode of the DSN)")
		}
		class := retry.ClassOf(err)
		if class == retry.ClassUnknown { // the server did not answer
			class = retry.ClassTransient
		}
		return made(remote.KindConnection, class, "")
	}
	state := answer.Code
	if state == "08P01" { // pgbouncer has one code for every failed login
		switch m := answer.Message; {
		case strings.Contains(m, "authentication failed"), strings.Contains(m, "no such user"):
			state = "28P01"
		case strings.Contains(m, "no such database"):
			state = "3D000"
		}
	}
	for n := len(state); n >= 2; n-- {
		if c, found := causes[state[:n]]; found {
			return made(c.kind, c.class, c.text)
		}
	}
	return made(remote.KindConnection, retry.ClassOf(err), "")
}

// inDSN says where a DSN has the settings of TLS.
var inDSN = strings.NewReplacer("broker", "server", "tls.ca_file", "sslrootcert in the DSN", "tls.server_name",
	"the host of the DSN")

// State is the SQLSTATE that the server answered, such as 42P01, or "" if it did not answer.
func State(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}
