// Package postgres connects to PostgreSQL, for sources, relays and commands: address, credentials and TLS as options
// of jackc/pgx, a bounded pool that connects again by itself, and errors in plain English with advice.
//
// It does not know which tables are read or written.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sloengine/sloengine/reliability/secretfile"
)

// Options say where a database is and who connects to it. A zero field takes the default given with it.
type Options struct {
	// DSN is a URL such as postgres://user@host:5432/shop?sslmode=verify-full, or the same as keywords, such as
	// "host=db user=shop dbname=shop". TLS is set with sslmode, sslrootcert, sslcert and sslkey, as everywhere else. It
	// has no password.
	DSN string `yaml:"dsn"`
	// DSNFile holds the DSN, which may have a password. Either DSN or DSNFile is required.
	DSNFile string `yaml:"dsn_file" is:"file"`
	// PasswordFile holds the password. A changed file counts for connections made 10 s later at the latest, like a changed
	// DSNFile.
	PasswordFile string `yaml:"password_file" is:"file"`
	// TransactionPooling says that a pooler such as pgbouncer in its mode "transaction" is in between: each transaction
	// may get another session, so nothing is prepared.
	TransactionPooling bool `yaml:"transaction_pooling"`
	// MaxConnections bounds the connections of the pool; 4.
	MaxConnections int `yaml:"max_connections" min:"1" max:"100"`
	// ConnectTimeout bounds connecting and logging in, if the DSN has no connect_timeout; 10 s.
	ConnectTimeout time.Duration `yaml:"connect_timeout" min:"100ms" max:"2m"`
	// ApplicationName is shown in pg_stat_activity, if the DSN has no application_name; sloengine.
	ApplicationName string `yaml:"application_name"`
}

// Defaults of Options.
const (
	DefaultMaxConnections  = 4
	DefaultConnectTimeout  = 10 * time.Second
	DefaultApplicationName = "sloengine"
)

func (o *Options) applyDefaults() {
	o.MaxConnections = cmp.Or(o.MaxConnections, DefaultMaxConnections)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, DefaultConnectTimeout)
	o.ApplicationName = cmp.Or(o.ApplicationName, DefaultApplicationName)
}

// Validate reports everything that is wrong, and reads the files. It connects to nothing.
func (o Options) Validate() error {
	_, err := newTarget(o)
	return err
}

// target makes the configuration of each connection, with the secrets of the moment.
type target struct {
	o        Options
	dsn      *secretfile.File // nil: Options.DSN
	password *secretfile.File // nil: that of the DSN
}

func newTarget(o Options) (*target, error) {
	o.applyDefaults()
	t := &target{o: o}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	var err error
	switch {
	case o.DSN == "" && o.DSNFile == "":
		bad("dsn: missing (set dsn, such as postgres://user@host:5432/shop, or dsn_file)")
	case o.DSN != "" && o.DSNFile != "":
		bad("dsn and dsn_file: only one of them may be set")
	case o.DSN != "":
		if err := t.check(o.DSN, false); err != nil {
			bad("dsn: %w", err)
		}
	default:
		t.dsn, err = secretfile.Open(o.DSNFile, func(raw []byte) error { return t.check(string(raw), true) })
		if err != nil {
			bad("dsn_file: %w", err)
		}
	}
	if o.PasswordFile != "" {
		t.password, err = secretfile.Open(o.PasswordFile, nil)
		if err != nil {
			bad("password_file: %w", err)
		}
	}
	if o.MaxConnections < 0 || o.ConnectTimeout < 0 {
		bad("max_connections and connect_timeout must not be negative")
	}
	return t, errors.Join(errs...)
}

// check is about a DSN. Its errors hold nothing of it, since it may have a password.
func (t *target) check(dsn string, mayHavePassword bool) error {
	if dsn == "" {
		return errors.New("empty")
	}
	if strings.Contains(dsn, "://") && !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return errors.New("must begin with postgres:// or postgresql://, or consist of words such as host=db user=shop")
	}
	c, err := t.parse(dsn)
	if err != nil {
		return err
	}
	if !mayHavePassword && hasPassword(dsn, c.Password) {
		return errors.New("contains a password (set password_file, or move the DSN to a file and set dsn_file)")
	}
	return nil
}

// hasPassword distinguishes a password of the DSN from one of the environment or ~/.pgpass.
func hasPassword(dsn, password string) bool {
	if password == "" {
		return false
	}
	without, err := pgx.ParseConfig("user=nobody host=nowhere")
	return err != nil || without.Password != password || strings.Contains(dsn, "password")
}

// parse makes a configuration, whose error is safe to show.
func (t *target) parse(dsn string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		var reason string
		if inner := errors.Unwrap(err); inner != nil {
			reason = inner.Error()
		}
		if reason == "" || strings.ContainsAny(reason, "@=:") { // it may quote a part of the DSN
			return nil, errors.New("not a DSN (want one such as postgres://user@host:5432/shop?sslmode=verify-full)")
		}
		return nil, fmt.Errorf("not a DSN: %s (want one such as postgres://user@host:5432/shop?sslmode=verify-full)", reason)
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = t.o.ConnectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = t.o.ApplicationName
	}
	if t.o.TransactionPooling {
		c.DefaultQueryExecMode = pgx.QueryExecModeExec
		c.StatementCacheCapacity, c.DescriptionCacheCapacity = 0, 0
	}
	return c, nil
}

// config is that of a connection made now.
func (t *target) config() (*pgx.ConnConfig, error) {
	dsn := t.o.DSN
	if t.dsn != nil {
		dsn = string(t.dsn.Value(false))
	}
	c, err := t.parse(dsn)
	if err != nil {
		return nil, err
	}
	if t.password != nil {
		c.Password = string(t.password.Value(false))
	}
	return c, nil
}

// Pool is a pool of connections. Its queries return errors of the library: see Explain.
type Pool struct {
	*pgxpool.Pool
	target *target
}

// Open checks the options and makes a pool, which connects when it is first used. Close ends it.
func Open(o Options) (*Pool, error) {
	t, err := newTarget(o)
	if err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig("user=nobody host=nowhere")
	if err != nil {
		return nil, err
	}
	if c.ConnConfig, err = t.config(); err != nil {
		return nil, err
	}
	c.MaxConns, c.MinConns = int32(t.o.MaxConnections), 0
	c.PingTimeout = t.o.ConnectTimeout
	c.BeforeConnect = func(_ context.Context, to *pgx.ConnConfig) error {
		now, err := t.config()
		if err != nil {
			return err
		}
		*to = *now
		return nil
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil, err
	}
	return &Pool{pool, t}, nil
}

// Dial makes a connection of its own, which the caller closes. The error is a *remote.BrokerError.
func Dial(ctx context.Context, o Options) (*pgx.Conn, error) {
	t, err := newTarget(o)
	if err != nil {
		return nil, err
	}
	c, err := t.config()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, Explain(err)
	}
	return conn, nil
}

// Address is where the database is, for people: host:port/database.
func (p *Pool) Address() string {
	c, err := p.target.config()
	if err != nil {
		return ""
	}
	if strings.HasPrefix(c.Host, "/") { // the folder of a socket
		return c.Host + ":" + strconv.Itoa(int(c.Port)) + "/" + c.Database
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
}
