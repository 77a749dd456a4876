package ingest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/engine"
)

// grpcCall is what a unary call got back.
type grpcCall struct {
	status, message, details string
	body                     []byte // of the message
}

// callGRPC serves a handler over HTTP/2 and returns a function that makes calls.
func callGRPC(t *testing.T, handler http.Handler) func(path, body string, h headers) grpcCall {
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.Protocols = &http.Protocols{}
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	t.Cleanup(client.CloseIdleConnections)
	return func(path, body string, h headers) (out grpcCall) {
		req, err := http.NewRequest(http.MethodPost, srv.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/grpc")
		req.Header.Set("TE", "trailers")
		for k, v := range h {
			req.Header.Set(k, v)
		}
		res, err := client.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Equal(t, "application/grpc+proto", res.Header.Get("Content-Type"))
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		out.status, out.message = res.Trailer.Get("Grpc-Status"), res.Trailer.Get("Grpc-Message")
		details, err := base64.RawStdEncoding.DecodeString(res.Trailer.Get("Grpc-Status-Details-Bin"))
		require.NoError(t, err)
		out.details = string(details)
		if len(answer) > 0 {
			require.Equal(t, int(binary.BigEndian.Uint32(answer[1:])), len(answer)-5)
			out.body = answer[5:]
		}
		return out
	}
}

func framed(flag byte, message string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message)))) + message
}

func TestSpansOverGRPC(t *testing.T) {
	r := newRig(t, shopOnly)
	call := callGRPC(t, r.handler.GRPC())
	body := wire(t, spansOf("shop", testNow, 0, 300))
	for range 2 {
		got := call(grpcTracesPath, framed(0, body), nil)
		require.Equal(t, grpcCall{status: "0", body: []byte{}}, got)
	}
	require.Equal(t, 300, r.events)

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(wire(t, spansOf("shop", testNow, 300, 10))))
	require.NoError(t, z.Close())
	got := call(grpcTracesPath, framed(1, packed.String()), headers{"Grpc-Encoding": "gzip"})
	require.Equal(t, "0", got.status, got.message)
	require.Equal(t, 310, r.events)

	got = call(grpcTracesPath, framed(0, wire(t, spansOf("shop", testNow.AddDate(0, 0, -3), 0, 2))), nil)
	require.Equal(t, "0", got.status)
	require.Contains(t, string(got.body), "2 of 2 spans that would count are refused: 2 time_too_old")
}

func TestStatusesOverGRPC(t *testing.T) {
	body := wire(t, spansOf("shop", testNow, 0, 4))
	for name, c := range map[string]struct {
		body, path string
		header     headers
		fail       error
		status     string
		message    string
		retry      bool
	}{
		"no message":         {status: "3", message: "the call has no message"},
		"half a message":     {body: framed(0, body)[:40], status: "3", message: "but its head says"},
		"two messages":       {body: framed(0, body) + framed(0, body), status: "3", message: "send one message per call"},
		"a flag that is no":  {body: framed(7, body), status: "3", message: "the flag of the message is 7"},
		"compressed somehow": {body: framed(1, body), status: "3", message: "grpc-encoding does not say how"},
		"encoding": {body: framed(1, body), header: headers{"Grpc-Encoding": "br"}, status: "3",
			message: "unsupported"},
		"not protobuf": {body: framed(0, "\xff"), status: "3", message: "invalid_protobuf"},
		"content type": {body: framed(0, body), header: headers{"Content-Type": "application/grpc+json"}, status: "3",
			message: "unsupported_media_type"},
		"timeout of nothing": {body: framed(0, body), header: headers{"Grpc-Timeout": "S"}, status: "3",
			message: "invalid grpc-timeout"},
		"timeout too long": {body: framed(0, body), header: headers{"Grpc-Timeout": "123456789S"}, status: "3",
			message: "invalid grpc-timeout"},
		"timeout of 0": {body: framed(0, body), header: headers{"Grpc-Timeout": "0m"}, status: "14",
			message: "deadline_passed", retry: true},
		"disk full": {body: framed(0, body), fail: engine.ErrDiskFull, status: "14", message: "disk_full",
			retry: true},
		"profiles": {path: "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
			status: "12", message: "no method"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, shopOnly)
			r.fail = c.fail
			if c.path == "" {
				c.path = grpcTracesPath
			}
			got := callGRPC(t, r.handler.GRPC())(c.path, c.body, c.header)
			require.Equal(t, c.status, got.status, got.message)
			require.Contains(t, got.message, c.message)
			require.Equal(t, c.retry, strings.Contains(got.details, "google.rpc.RetryInfo"))
			require.Empty(t, got.body)
			require.Zero(t, r.events)
		})
	}
}

// A sender over gRPC gets a status of gRPC also where there is no engine yet, and from what stands before it.
func TestStatusesOverGRPCWithoutAnEngine(t *testing.T) {
	got := callGRPC(t, NoEngine("the engine is starting"))(grpcTracesPath, framed(0, ""), nil)
	require.Equal(t, "14", got.status)
	require.Equal(t, "not_ready: the engine is starting", got.message)
	require.Contains(t, got.details, "google.rpc.RetryInfo")
	require.Empty(t, got.body)

	auth := NewAuth(AuthOptions{Host: func(string) bool { return false }})
	got = callGRPC(t, newRig(t, shopOnly).handler.GRPC(auth.CheckHost))(grpcTracesPath, framed(0, ""), nil)
	require.Equal(t, "7", got.status)
	require.Contains(t, got.message, "unknown_host: ")
}

func TestGRPCMessagesAreEscaped(t *testing.T) {
	require.Equal(t, "100%25%0Ab%C3%A4", percentEncoded("100%\nbä"))
}
