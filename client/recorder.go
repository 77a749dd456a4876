package client

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// recorder remembers the status of an answer. What else a ResponseWriter can do is
// reached through Unwrap, by http.ResponseController; the methods below serve code that
// asks for the older interfaces.
type recorder struct {
	http.ResponseWriter
	status   int // 0: nothing was written yet
	hijacked bool
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) wrote() {
	if r.status == 0 {
		r.status = http.StatusOK
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.wrote()
	return r.ResponseWriter.Write(b)
}

func (r *recorder) WriteString(s string) (int, error) {
	r.wrote()
	return io.WriteString(r.ResponseWriter, s)
}

// ReadFrom keeps sendfile working.
func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	r.wrote()
	return io.Copy(r.ResponseWriter, src)
}

// Flush implements http.Flusher.
func (r *recorder) Flush() { _ = r.FlushError() }

// FlushError is what http.ResponseController calls.
func (r *recorder) FlushError() error {
	r.wrote()
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker; where connections cannot be taken over (HTTP/2), it
// says so.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.hijacked = true
	}
	return conn, rw, err
}
