package postgres

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }

func TestWrongOptions(t *testing.T) {
	const plain = "postgres://alice@db/shop"
	for text, o := range map[string]Options{
		"dsn: missing":                       {},
		"only one of them":                   {DSN: plain, DSNFile: nettest.PasswordFile(t, plain)},
		"dsn: must begin with postgres://":   {DSN: "mysql://alice:hunter2@db/shop"},
		"dsn: not a DSN":                     {DSN: "postgres://alice:hunter2@db:port/shop"},
		"dsn: contains a password":           {DSN: "postgres://alice:hunter2@db/shop"},
		"dsn: contains a password (":         {DSN: "host=db user=alice password=hunter2"},
		"dsn_file: stat /nowhere":            {DSNFile: "/nowhere"},
		"password: empty":                    {DSNFile: nettest.PasswordFile(t, " \n")},
		"password: not a DSN":                {DSNFile: nettest.PasswordFile(t, "postgres://alice:hunter2@db:port/shop")},
		"password_file: stat /nowhere":       {DSN: plain, PasswordFile: "/nowhere"},
		"password: the file is empty":        {DSN: plain, PasswordFile: nettest.PasswordFile(t, "")},
		"max_connections and connect_timeou": {DSN: plain, MaxConnections: -1},
	} {
		err := o.Validate()
		require.ErrorContains(t, err, text)
		require.NotContains(t, err.Error(), "hunter2")
		_, err = Open(o)
		require.ErrorContains(t, err, text)
	}
	require.NoError(t, Options{DSNFile: nettest.PasswordFile(t, "postgres://alice:hunter2@db/shop\n")}.Validate())
	p, err := Open(Options{DSN: "postgres://alice@db.example.org/shop"})
	require.NoError(t, err)
	defer p.Close()
	require.Equal(t, "db.example.org:5432/shop", p.Address())
}

// TestWhatAnOperatorReads makes each mistake with a real server.
func TestWhatAnOperatorReads(t *testing.T) {
	s := postgrestest.Shared(t)
	db := s.Database(t)
	s.Exec(t, db, "CREATE TABLE a (n int PRIMARY KEY)")
	pooled := s.Bouncer(t)
	alice := func(address, params string) Options {
		return Options{
			DSN:          "postgres://alice@" + address + "/" + db + "?connect_timeout=60&" + params,
			PasswordFile: nettest.PasswordFile(t, postgrestest.AlicePassword),
		}
	}
	wrong := alice(s.Address, "")
	wrong.PasswordFile = nettest.PasswordFile(t, "no")
	wrongPooled := alice(pooled, "sslmode=disable")
	wrongPooled.PasswordFile = nettest.PasswordFile(t, "no")
	mallory := Options{
		DSNFile: nettest.PasswordFile(t, s.DSNOf(s.Address, postgrestest.Mallory, postgrestest.MalloryPassword, db))}
	missing := Options{DSNFile: nettest.PasswordFile(t, s.DSN("missing"))}
	for name, x := range map[string]struct {
		o     Options
		query string
		kind  remote.Kind
		class retry.Class
		text  string
	}{
		"plain": {o: alice(s.Address, "sslmode=disable")},
		"TLS":   {o: alice(s.Address, "sslmode=verify-full&sslrootcert="+s.CAFile)},
		"foreign CA": {o: alice(s.Address, "sslmode=verify-full"), kind: remote.KindTLS, class: retry.ClassBlocked,
			text: "unknown authority"},
		"no TLS": {o: alice(pooled, "sslmode=require"), kind: remote.KindTLS, class: retry.ClassBlocked,
			text: "does not offer TLS"},
		"wrong password": {o: wrong, kind: remote.KindCredentials, class: retry.ClassBlocked,
			text: "user name or password"},
		"through a pooler": {o: wrongPooled, kind: remote.KindCredentials, class: retry.ClassBlocked,
			text: "user name or password"},
		"no rights": {o: mallory, kind: remote.KindCredentials, class: retry.ClassBlocked, text: "GRANT"},
		"no database": {o: missing, kind: remote.KindTopology, class: retry.ClassBlocked,
			text: "the database does not exist"},
		"no listener": {o: Options{DSN: "postgres://alice@127.0.0.1:1/a"}, kind: remote.KindConnection,
			class: retry.ClassTransient, text: "refused"},
		"no table": {o: alice(s.Address, ""), query: "SELECT n FROM b", kind: remote.KindTopology,
			class: retry.ClassBlocked, text: "the table does not exist"},
		"no column": {o: alice(s.Address, ""), query: "SELECT m FROM a", kind: remote.KindTopology,
			class: retry.ClassBlocked, text: "a column does not exist"},
		"wrong value": {o: alice(s.Address, ""), query: "INSERT INTO a VALUES (1), (1)", kind: remote.KindMessage,
			class: retry.ClassPermanent, text: "duplicate key"},
		"read-only": {o: alice(s.Address, "default_transaction_read_only=on"), query: "INSERT INTO a VALUES (1)",
			kind: remote.KindConnection, class: retry.ClassBlocked, text: "connect to the primary"},
		"canceled": {o: alice(s.Address, "statement_timeout=20"), query: "SELECT pg_sleep(10)",
			kind: remote.KindConnection, class: retry.ClassTimeout, text: "was canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Open(x.o)
			require.NoError(t, err)
			defer p.Close()
			query := x.query
			if query == "" {
				query = "SELECT count(*) FROM a"
			}
			_, err = p.Exec(t.Context(), query)
			err = Explain(err)
			if x.text == "" {
				require.NoError(t, err)
				return
			}
			var e *remote.BrokerError
			require.ErrorAs(t, err, &e)
			require.ErrorContains(t, err, x.text)
			require.Equal(t, x.kind, e.Kind, err)
			require.Equal(t, x.class, retry.ClassOf(err), err)
			require.NotEmpty(t, e.Brief())
			require.NotContains(t, err.Error(), postgrestest.AlicePassword)
		})
	}
}

// TestTransactionPooling has more clients than sessions, which prepared statements do not survive.
func TestTransactionPooling(t *testing.T) {
	s := postgrestest.Shared(t)
	db := s.Database(t)
	s.Exec(t, db, "CREATE TABLE a (n int, at timestamptz, raw bytea)")
	address := s.Bouncer(t)
	open := func(pooling bool) *Pool {
		p, err := Open(Options{
			DSNFile:            nettest.PasswordFile(t, s.DSNOf(address, postgrestest.Alice, postgrestest.AlicePassword, db)),
			TransactionPooling: pooling, MaxConnections: 20,
		})
		require.NoError(t, err)
		t.Cleanup(p.Close)
		return p
	}
	use := func(p *Pool) error {
		fails := make(chan error, 10)
		for range 10 {
			go func() {
				var errs []error
				for i := range 20 {
					_, err := p.Exec(t.Context(), "INSERT INTO a VALUES ($1, $2, $3)", i, time.Now(), []byte{0, 'a'})
					var n int
					errs = append(
						errs, err, p.QueryRow(t.Context(), "SELECT count(*) FROM a WHERE n = ANY($1)", []int64{1, 2}).Scan(&n))
				}
				fails <- errors.Join(errs...)
			}()
		}
		var errs []error
		for range 10 {
			errs = append(errs, <-fails)
		}
		return errors.Join(errs...)
	}
	require.NoError(t, use(open(true)))
	err := Explain(use(open(false)))
	require.ErrorContains(t, err, "set transaction_pooling: true")
	require.Equal(t, retry.ClassBlocked, retry.ClassOf(err))
}

// TestAPoolConnectsAgain breaks the network and changes the password meanwhile.
func TestAPoolConnectsAgain(t *testing.T) {
	s := postgrestest.Start(t, postgrestest.Options{Proxied: true, Unsafe: true})
	db := s.Database(t)
	password := nettest.PasswordFile(t, postgrestest.AlicePassword)
	p, err := Open(Options{DSN: strings.Replace(s.ProxiedDSN(db), ":"+postgrestest.AlicePassword, "", 1),
		PasswordFile: password, ConnectTimeout: 30 * time.Second})
	require.NoError(t, err)
	defer p.Close()
	ask := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := p.Exec(ctx, "SELECT 1")
		return Explain(err)
	}
	require.NoError(t, ask())
	s.Proxy.Cut()
	require.Error(t, ask())
	s.Proxy.Restore()
	require.Eventually(t, func() bool { return ask() == nil }, testkit.Patience, 20*time.Millisecond)
	s.Kill()
	require.Equal(t, retry.ClassTransient, retry.ClassOf(ask()))
	s.Restart(t)
	require.Eventually(t, func() bool { return ask() == nil }, testkit.Patience, 20*time.Millisecond)
	require.NoError(t, os.WriteFile(password, []byte("new-secret"), 0o600))
	s.Admin(t, "postgres", "ALTER ROLE alice PASSWORD 'new-secret'")
	s.Proxy.Cut()
	s.Proxy.Restore()
	require.Eventually(t, func() bool { return ask() == nil }, testkit.Patience, 100*time.Millisecond)
}
