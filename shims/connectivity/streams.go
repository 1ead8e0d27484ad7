package connectivity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	"k8s.io/utils/exec"
)

const (
	// idleTimeout ends a connection that nothing comes over; the kubelet's default is longer.
	idleTimeout = 10 * time.Minute
	// creationTimeout is how long a client may take to open its streams, as the kubelet's.
	creationTimeout = 30 * time.Second
	// readyTime is what a WebSocket's client gets to make its streams, once it is answered.
	readyTime = 20 * time.Millisecond
)

// The channels of a WebSocket, as k8s.io/client-go/tools/remotecommand numbers them.
const (
	stdinChannel = iota
	stdoutChannel
	stderrChannel
	errorChannel
	resizeChannel
	channels
)

// runner is what runs behind the streams. An error is one of the API, not of the command.
type runner func(ctx context.Context, s streams) (code int, err error)

// serveStreams takes the connection over, as a WebSocket of version 4 or 5 or as SPDY,
// whichever the client asks for, and runs.
func serveStreams(w http.ResponseWriter, req *http.Request, run runner) error {
	query := req.URL.Query()
	o := &remotecommand.Options{Stdin: truth(query.Get("stdin")), Stdout: truth(query.Get("stdout")), Stderr: truth(query.Get("stderr")), TTY: truth(query.Get("tty"))}
	if o.TTY {
		o.Stderr = false // a terminal has one stream
	}
	if wsstream.IsWebSocketRequest(req) {
		serveWebSocket(w, req, o, run)
		return nil
	}
	remotecommand.ServeExec(w, req, executor(run), "", "", "", nil, o, idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
	return nil
}

func truth(s string) bool {
	b, _ := strconv.ParseBool(s) // what isn't a boolean is none
	return b
}

// executor lets upstream's server of SPDY run it.
type executor runner

// ExecInContainer implements remotecommand.Executor.
func (e executor) ExecInContainer(ctx context.Context, _, _, _ string, _ []string, stdin io.Reader, stdout, stderr io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	s := streams{stdin: stdin, stdout: io.Discard, stderr: io.Discard}
	if stdout != nil {
		s.stdout = stdout
	}
	switch {
	case stderr != nil:
		s.stderr = stderr
	case stdout != nil:
		s.stderr = stdout
	}
	code, err := e(ctx, s)
	if err != nil {
		return err
	}
	if code != 0 {
		return exec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", code), Code: code}
	}
	return nil
}

// serveWebSocket speaks channel.k8s.io: upstream's server of containers knows it up to version
// 4 only, and kubectl asks for 5, which can close stdin.
func serveWebSocket(w http.ResponseWriter, req *http.Request, o *remotecommand.Options, run runner) {
	kinds := make([]wsstream.ChannelType, channels)
	for i, used := range []bool{stdinChannel: o.Stdin, stdoutChannel: o.Stdout, stderrChannel: o.Stderr} {
		switch {
		case !used:
			kinds[i] = wsstream.IgnoreChannel
		case i == stdinChannel:
			kinds[i] = wsstream.ReadChannel
		default:
			kinds[i] = wsstream.WriteChannel
		}
	}
	kinds[errorChannel], kinds[resizeChannel] = wsstream.WriteChannel, wsstream.ReadChannel
	protocols := map[string]wsstream.ChannelProtocolConfig{}
	for _, name := range []string{"", "channel.k8s.io", remotecommand.StreamProtocolV4Name, remotecommand.StreamProtocolV5Name} {
		protocols[name] = wsstream.ChannelProtocolConfig{Binary: true, Channels: kinds}
	}
	for _, name := range []string{"base64.channel.k8s.io", "v4.base64.channel.k8s.io"} {
		protocols[name] = wsstream.ChannelProtocolConfig{Channels: kinds}
	}
	conn := wsstream.NewConn(protocols)
	conn.SetIdleTimeout(idleTimeout)
	protocol, opened, err := conn.Open(w, req)
	if err != nil {
		return // it has answered
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	go func() { _, _ = io.Copy(io.Discard, opened[resizeChannel]) }() // a pipe: until the connection ends
	s := streams{stdout: io.Discard, stderr: io.Discard}
	if o.Stdin {
		s.stdin = opened[stdinChannel]
	}
	// An empty message tells the client that the connection stands.
	first := errorChannel
	if o.Stdout {
		first, s.stdout, s.stderr = stdoutChannel, opened[stdoutChannel], opened[stdoutChannel]
	}
	if o.Stderr {
		s.stderr = opened[stderrChannel]
		if !o.Stdout {
			first = stderrChannel
		}
	}
	if _, err := opened[first].Write(nil); err != nil {
		return
	}
	// kubectl 1.32 was seen to drop what came before it had made its streams, which no container
	// is fast enough for.
	select {
	case <-time.After(readyTime):
	case <-ctx.Done():
	}
	code, err := run(ctx, s)
	if !strings.HasPrefix(protocol, "v4.") && !strings.HasPrefix(protocol, "v5.") {
		if err == nil && code != 0 {
			err = fmt.Errorf("command terminated with non-zero exit code: %d", code)
		}
		if err != nil {
			_, _ = opened[errorChannel].Write([]byte(err.Error())) // a client that left needs no answer
		}
		return
	}
	text, _ := json.Marshal(ended(code, err)) // a Status can always be written
	_, _ = opened[errorChannel].Write(text)
	if o.Stdin {
		_ = opened[stdinChannel].Close()
	}
}

// ended is the Status that a command ends with.
func ended(code int, err error) *metav1.Status {
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		return &metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
			Message: "Internal error occurred: " + err.Error(),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: err.Error()}}},
		}
	case code != 0:
		return &metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: command terminated with exit code %d", code),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(code)}}},
		}
	}
	return &metav1.Status{Status: metav1.StatusSuccess}
}
