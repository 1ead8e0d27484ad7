package metrics

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
)

// The functions here read parameters exactly as Prometheus' API does, and fail with
// its messages.

func timeOf(req *http.Request, name string, otherwise time.Time) (time.Time, error) {
	text := req.FormValue(name)
	if text == "" {
		return otherwise, nil
	}
	t, err := parseTime(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("invalid time value for '%s': %w", name, err)
	}
	return t, nil
}

func parseTime(text string) (time.Time, error) {
	if t, err := strconv.ParseFloat(text, 64); err == nil {
		s, ns := math.Modf(t)
		ns = math.Round(ns*1000) / 1000
		return time.Unix(int64(s), int64(ns*float64(time.Second))).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	// time.Parse takes four digits for a year, and these have more.
	switch text {
	case minTime.Format(time.RFC3339Nano):
		return minTime, nil
	case maxTime.Format(time.RFC3339Nano):
		return maxTime, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", text)
}

func parseDuration(text string) (time.Duration, error) {
	if d, err := strconv.ParseFloat(text, 64); err == nil {
		ns := d * float64(time.Second)
		if math.IsNaN(ns) || ns >= float64(math.MaxInt64) || ns < float64(math.MinInt64) {
			return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", text)
		}
		return time.Duration(ns), nil
	}
	if d, err := model.ParseDuration(text); err == nil {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", text)
}

func limitOf(req *http.Request) (int, error) {
	text := req.FormValue("limit")
	if text == "" {
		return 0, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil {
		return 0, err
	}
	if limit < 0 {
		return 0, errors.New("limit must be non-negative")
	}
	return limit, nil
}

func timeoutOf(req *http.Request) (time.Duration, error) {
	text := req.FormValue("timeout")
	if text == "" {
		return 0, nil
	}
	timeout, err := parseDuration(text)
	if err != nil {
		return 0, invalid("timeout", err)
	}
	if timeout <= 0 {
		return 0, invalid("timeout", fmt.Errorf("timeout must be positive, got %s", timeout))
	}
	return timeout, nil
}
