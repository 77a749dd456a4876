package postgrestest

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Main(m)) }

func TestUsersAndDatabases(t *testing.T) {
	s := Shared(t)
	db := s.Database(t)
	require.NotEqual(t, db, s.Database(t))
	s.Exec(t, db, "CREATE TABLE a (n int)")
	var n int
	require.NoError(t, s.Conn(t, db).QueryRow(t.Context(), "SELECT count(*) FROM a").Scan(&n))
	ask := func(dsn string) error {
		c, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			return err
		}
		defer c.Close(t.Context())
		return c.QueryRow(t.Context(), "SELECT count(*) FROM a").Scan(&n)
	}
	require.NoError(
		t, ask("postgres://"+Alice+":"+AlicePassword+"@"+s.Address+"/"+db+"?sslmode=verify-full&sslrootcert="+s.CAFile))
	require.ErrorContains(t, ask(s.DSNOf(s.Address, Alice, "wrong", db)), "28P01")
	require.ErrorContains(t, ask(s.DSNOf(s.Address, Mallory, MalloryPassword, db)), "42501")
}

func TestBouncer(t *testing.T) {
	s := Shared(t)
	db := s.Database(t)
	c, err := pgx.Connect(t.Context(), s.DSNOf(s.Bouncer(t), Alice, AlicePassword, db)+"&default_query_exec_mode=exec")
	require.NoError(t, err)
	defer c.Close(t.Context())
	var n int
	require.NoError(t, c.QueryRow(t.Context(), "SELECT 1 + $1::int", 2).Scan(&n))
	require.Equal(t, 3, n)
}

func TestAServerThatIsKilledHasItsDataAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("other packages run the helpers under the race detector")
	}
	s := Start(t, Options{Proxied: true})
	db := s.Database(t)
	s.Exec(t, db, "CREATE TABLE a (n int)", "INSERT INTO a VALUES (1)")
	open := s.Conn(t, db)
	s.Kill()
	_, err := open.Exec(t.Context(), "INSERT INTO a VALUES (2)")
	require.Error(t, err)
	began := time.Now()
	s.Restart(t)
	t.Logf("ready again after %s", time.Since(began))
	s.Exec(t, db, "INSERT INTO a VALUES (3)")
	s.Proxy.Cut()
	_, err = pgx.Connect(t.Context(), s.ProxiedDSN(db))
	require.Error(t, err)
	s.Proxy.Restore()
	s.Stop()
	s.Restart(t)
	var sum int
	c, err := pgx.Connect(t.Context(), s.ProxiedDSN(db))
	require.NoError(t, err)
	defer c.Close(t.Context())
	require.NoError(t, c.QueryRow(t.Context(), "SELECT sum(n) FROM a").Scan(&sum))
	require.Equal(t, 4, sum, s.Log())
}
