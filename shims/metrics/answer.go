package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	jsoniter "github.com/json-iterator/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/jsonutil"
	"github.com/prometheus/prometheus/util/stats"
)

// writeTime is what a client has to take an answer.
const writeTime = time.Minute

// kind is an errorType of Prometheus' API, and one of ours.
type kind string

const (
	badData     kind = "bad_data"
	execution   kind = "execution"
	timeout     kind = "timeout"
	canceled    kind = "canceled"
	internal    kind = "internal"
	unavailable kind = "unavailable"
	notCaptured kind = "not_captured"
)

// codes are the statuses of kinds. That of notCaptured is none of Prometheus': what
// wasn't captured must not be taken for an answer.
var codes = map[kind]int{
	badData: http.StatusBadRequest, execution: http.StatusUnprocessableEntity, timeout: http.StatusServiceUnavailable,
	canceled: 499, internal: http.StatusInternalServerError, unavailable: http.StatusInternalServerError, notCaptured: http.StatusNotImplemented,
}

// failure is an error of a kind.
type failure struct {
	kind kind
	err  error
}

func (f failure) Error() string { return f.err.Error() }
func (f failure) Unwrap() error { return f.err }

func invalid(parameter string, err error) error {
	return failure{badData, fmt.Errorf("invalid parameter %q: %w", parameter, err)}
}

// kindOf classifies errors as Prometheus does.
func kindOf(err error) kind {
	var (
		f        failure
		canceler promql.ErrQueryCanceled
		timeouts promql.ErrQueryTimeout
		storages promql.ErrStorage
	)
	switch {
	case errors.As(err, &f):
		return f.kind
	case errors.As(err, &canceler), errors.Is(err, context.Canceled):
		return canceled
	case errors.As(err, &timeouts), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errBusy):
		return timeout
	case errors.As(err, &storages):
		return internal
	}
	return execution
}

func statusOf(err error) int { return codes[kindOf(err)] }

// respond writes an answer. The query's turn ends when the answer is encoded; encoded
// answers that wait for their clients are bounded together.
func (s *Shim) respond(ctx context.Context, w http.ResponseWriter, r result, err error) {
	code := http.StatusOK
	var body []byte
	if err == nil {
		body, err = encode(r)
	}
	if err != nil {
		code = statusOf(err)
		body, _ = jsoniter.ConfigCompatibleWithStandardLibrary.Marshal(struct { // texts always encode
			Status    string `json:"status"`
			ErrorType kind   `json:"errorType"`
			Error     string `json:"error"`
		}{"error", kindOf(err), err.Error()})
	}
	size := int64(len(body))
	held := s.answers.Acquire(ctx, size) == nil
	if r.done != nil {
		r.done()
	}
	if !held {
		return // the client left, or others take too long to read
	}
	defer s.answers.Release(size)
	_ = http.NewResponseController(w).SetWriteDeadline(s.now().Add(writeTime)) // where the writer has deadlines
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that left needs no answer
}

// queryData is the data of a query.
type queryData struct {
	value parser.Value
	stats stats.QueryStats
}

// encode writes the envelope as Prometheus' own codec does.
func encode(r result) ([]byte, error) {
	json := jsoniter.ConfigCompatibleWithStandardLibrary
	stream := json.BorrowStream(nil)
	defer json.ReturnStream(stream)
	stream.WriteRaw(`{"status":"success","data":`)
	switch data := r.data.(type) {
	case queryData:
		if err := encodeQuery(stream, data); err != nil {
			return nil, err
		}
	case []labels.Labels:
		stream.WriteArrayStart()
		for i, l := range data {
			if i > 0 {
				stream.WriteMore()
			}
			encodeLabels(stream, l)
		}
		stream.WriteArrayEnd()
	default:
		stream.WriteVal(data)
	}
	warnings, infos := r.warnings.AsStrings(r.query, 10, 10)
	for _, texts := range []struct {
		name  string
		texts []string
	}{{"warnings", warnings}, {"infos", infos}} {
		if len(texts.texts) > 0 {
			stream.WriteMore()
			stream.WriteObjectField(texts.name)
			stream.WriteVal(texts.texts)
		}
	}
	stream.WriteObjectEnd()
	if stream.Error != nil {
		return nil, failure{internal, stream.Error}
	}
	if err := fits(stream); err != nil {
		return nil, err
	}
	return append([]byte(nil), stream.Buffer()...), nil
}

func fits(stream *jsoniter.Stream) error {
	if stream.Buffered() > maxAnswer {
		return failure{execution, fmt.Errorf("the answer has more than %d MiB: select fewer series or a longer step", maxAnswer>>20)}
	}
	return nil
}

func encodeQuery(stream *jsoniter.Stream, data queryData) error {
	stream.WriteRaw(`{"resultType":`)
	stream.WriteString(string(data.value.Type()))
	stream.WriteRaw(`,"result":`)
	switch v := data.value.(type) {
	case promql.Vector:
		stream.WriteArrayStart()
		for i, s := range v {
			if i > 0 {
				stream.WriteMore()
			}
			encodeSample(stream, s)
			if err := fits(stream); err != nil {
				return err
			}
		}
		stream.WriteArrayEnd()
	case promql.Matrix:
		stream.WriteArrayStart()
		for i, s := range v {
			if i > 0 {
				stream.WriteMore()
			}
			encodeSeries(stream, s)
			if err := fits(stream); err != nil {
				return err
			}
		}
		stream.WriteArrayEnd()
	default: // a scalar or a string, which encode themselves
		stream.WriteVal(v)
	}
	if data.stats != nil {
		stream.WriteMore()
		stream.WriteObjectField("stats")
		stream.WriteVal(data.stats)
	}
	stream.WriteObjectEnd()
	return nil
}

func encodeSample(stream *jsoniter.Stream, s promql.Sample) {
	stream.WriteRaw(`{"metric":`)
	encodeLabels(stream, s.Metric)
	if s.H != nil {
		stream.WriteRaw(`,"histogram":[`)
	} else {
		stream.WriteRaw(`,"value":[`)
	}
	jsonutil.MarshalTimestamp(s.T, stream)
	stream.WriteMore()
	if s.H != nil {
		jsonutil.MarshalHistogram(s.H, stream)
	} else {
		jsonutil.MarshalFloat(s.F, stream)
	}
	stream.WriteRaw(`]}`)
}

func encodeSeries(stream *jsoniter.Stream, s promql.Series) {
	stream.WriteRaw(`{"metric":`)
	encodeLabels(stream, s.Metric)
	for i, p := range s.Floats {
		if i == 0 {
			stream.WriteRaw(`,"values":[[`)
		} else {
			stream.WriteRaw(`],[`)
		}
		jsonutil.MarshalTimestamp(p.T, stream)
		stream.WriteMore()
		jsonutil.MarshalFloat(p.F, stream)
	}
	if len(s.Floats) > 0 {
		stream.WriteRaw(`]]`)
	}
	for i, p := range s.Histograms {
		if i == 0 {
			stream.WriteRaw(`,"histograms":[[`)
		} else {
			stream.WriteRaw(`],[`)
		}
		jsonutil.MarshalTimestamp(p.T, stream)
		stream.WriteMore()
		jsonutil.MarshalHistogram(p.H, stream)
	}
	if len(s.Histograms) > 0 {
		stream.WriteRaw(`]]`)
	}
	stream.WriteObjectEnd()
}

func encodeLabels(stream *jsoniter.Stream, l labels.Labels) {
	stream.WriteObjectStart()
	first := true
	l.Range(func(l labels.Label) {
		if !first {
			stream.WriteMore()
		}
		first = false
		stream.WriteString(l.Name)
		stream.WriteRaw(`:`)
		stream.WriteString(l.Value)
	})
	stream.WriteObjectEnd()
}
