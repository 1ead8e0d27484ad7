package report_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// browser is a headless Chromium, driven over its debugging pipe: JSON messages that end
// with a zero byte, on the descriptors 3 and 4.
type browser struct {
	t       *testing.T
	in      *os.File
	answers chan message
	next    int
	// events are those that came while an answer was awaited.
	events []message
}

type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

// newBrowser starts a browser for the test, or skips it where there is none.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		if os.Getenv("KUBECASE_BROWSER") != "" {
			t.Fatal("no Chromium is installed: run 'make browser', which installs it")
		}
		t.Skip("no Chromium is installed, so no page is looked at: run 'make browser'")
	}
	if testing.Short() {
		t.Skip("a browser is slow to start")
	}
	toBrowser, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "browser-")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.ExtraFiles = []*os.File{toBrowser, fromBrowser}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_ = toBrowser.Close()
	_ = fromBrowser.Close()
	b := &browser{t: t, in: in, answers: make(chan message, 1024)}
	ended := make(chan struct{})
	go func() {
		defer close(b.answers)
		r := bufio.NewReader(out)
		for {
			data, err := r.ReadBytes(0)
			if err != nil {
				return
			}
			var m message
			if json.Unmarshal(data[:len(data)-1], &m) == nil {
				select {
				case b.answers <- m:
				case <-ended:
					return
				}
			}
		}
	}()
	t.Cleanup(func() {
		close(ended)
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // its helpers too
		_ = command.Wait()
		_ = os.RemoveAll(profile) // what a helper wrote in its last moment stays in the system's folder
		_ = in.Close()
		_ = out.Close()
	})
	return b
}

const browserPatience = 60 * time.Second

func (b *browser) receive() message {
	b.t.Helper()
	select {
	case m, ok := <-b.answers:
		if !ok {
			b.t.Fatal("the browser ended")
		}
		return m
	case <-time.After(browserPatience):
		b.t.Fatal("the browser says nothing")
	}
	return message{}
}

// call sends a command and decodes its answer.
func (b *browser) call(session, method string, params, into any) {
	b.t.Helper()
	b.next++
	id := b.next
	data, err := json.Marshal(map[string]any{"id": id, "method": method, "sessionId": session, "params": params})
	if err != nil {
		b.t.Fatal(err)
	}
	if session == "" {
		data, _ = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	if _, err := b.in.Write(append(data, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		m := b.receive()
		if m.ID != id {
			b.events = append(b.events, m)
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if into != nil {
			if err := json.Unmarshal(m.Result, into); err != nil {
				b.t.Fatal(err)
			}
		}
		return
	}
}

// tab is an open page.
type tab struct {
	*browser
	session string
}

type screen struct {
	width, height int
	scheme        string
}

func (s screen) String() string { return fmt.Sprintf("%d-%s", s.width, s.scheme) }

var screens = []screen{{1280, 900, "light"}, {1280, 900, "dark"}, {390, 844, "light"}, {390, 844, "dark"}}

// open loads an address on a screen and waits until it is loaded.
func (b *browser) open(url string, s screen) *tab {
	b.t.Helper()
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p := &tab{b, attached.SessionID}
	b.events = nil
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.call(domain+".enable", map[string]any{}, nil)
	}
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": s.width, "height": s.height, "deviceScaleFactor": 1, "mobile": s.width < 600}, nil)
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": s.scheme}}}, nil)
	p.call("Page.navigate", map[string]any{"url": url}, nil)
	for loaded := false; !loaded; {
		for _, m := range b.events {
			loaded = loaded || m.Method == "Page.loadEventFired" && m.SessionID == p.session
		}
		if !loaded {
			b.events = append(b.events, b.receive())
		}
	}
	return p
}

func (p *tab) call(method string, params, into any) {
	p.t.Helper()
	p.browser.call(p.session, method, params, into)
}

// evaluate runs a script in the page and decodes its value.
func (p *tab) evaluate(script string, into any) {
	p.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	p.call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &answer)
	if answer.ExceptionDetails != nil {
		p.t.Fatalf("the script failed: %s", answer.ExceptionDetails)
	}
	if into != nil {
		if err := json.Unmarshal(answer.Result.Value, into); err != nil {
			p.t.Fatalf("%v: %s", err, answer.Result.Value)
		}
	}
}

// complaints are what the page's console said, and requests that left it.
func (p *tab) complaints(allowed string) (out []string) {
	p.evaluate("1", nil) // what was said before has arrived
	for _, m := range p.events {
		if m.SessionID != p.session {
			continue
		}
		switch m.Method {
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
			out = append(out, m.Method+" "+string(m.Params))
		case "Network.requestWillBeSent":
			var sent struct{ Request struct{ URL string } }
			if json.Unmarshal(m.Params, &sent) == nil && !strings.HasPrefix(sent.Request.URL, allowed) {
				out = append(out, "it asked for "+sent.Request.URL)
			}
		}
	}
	return out
}

// shoot keeps a picture of the whole page.
func (p *tab) shoot(name string) {
	p.t.Helper()
	dir := os.Getenv("KUBECASE_SCREENSHOTS")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "kubecase-screenshots")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	var picture struct{ Data string }
	p.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &picture)
	data, err := base64.StdEncoding.DecodeString(picture.Data)
	if err != nil || !bytes.HasPrefix(data, []byte("\x89PNG")) {
		p.t.Fatalf("no picture was taken: %v", err)
	}
	file := filepath.Join(dir, name+".png")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.t.Logf("screenshot: %s", file)
}

// looks finds what can't be read: a body wider than the screen, texts below 12 px, and
// texts whose contrast with what is behind them is below 4.5 (WCAG 2.2, 1.4.3).
const looks = `(() => {
  const faults = new Set();
  const wide = document.documentElement.scrollWidth;
  // A phone zooms out of a page that is too wide, and innerWidth with it: the layout's width stays.
  const screen = document.documentElement.clientWidth;
  if (wide > screen) faults.add('the body is ' + wide + ' px wide, the screen ' + screen);
  const number = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = e => {
    const box = e.closest('g.kc-group');
    if (box) return number(getComputedStyle(box.querySelector('rect')).fill);
    for (; e; e = e.parentElement) {
      const c = number(getComputedStyle(e).backgroundColor);
      if (c[3] > 0.99) return c;
    }
    return [255, 255, 255, 1];
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || ['TITLE', 'STYLE', 'SCRIPT'].includes(e.tagName.toUpperCase()) || !e.checkVisibility()) continue;
    seen++;
    const style = getComputedStyle(e), inSVG = e instanceof SVGElement;
    const scale = inSVG ? e.getScreenCTM().a || Math.abs(e.getScreenCTM().b) : 1;
    const size = parseFloat(style.fontSize) * scale, text = walk.currentNode.data.trim().slice(0, 40);
    if (size < 11.99) faults.add(size.toFixed(1) + ' px: ' + text);
    const a = light(number(inSVG ? style.fill : style.color)), b = light(behind(e));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faults.add('contrast ' + contrast.toFixed(2) + ': ' + text);
  }
  if (seen < 5) faults.add('there are only ' + seen + ' texts');
  return [...faults];
})()`

// inspect fails the test for all that is wrong with how a page looks.
func (p *tab) inspect(allowed string) {
	p.t.Helper()
	var faults []string
	p.evaluate(looks, &faults)
	for _, fault := range append(faults, p.complaints(allowed)...) {
		p.t.Error(fault)
	}
}

// await waits until an expression holds in the page.
func (p *tab) await(expression string) {
	p.t.Helper()
	var held bool
	p.evaluate(`new Promise(done => {
  const until = Date.now() + 20000;
  const look = () => (`+expression+`) ? done(true) : Date.now() > until ? done(false) : setTimeout(look, 50);
  look();
})`, &held)
	if !held {
		var body string
		p.evaluate("document.body.innerText", &body)
		p.t.Fatalf("the page never has %s:\n%s", expression, body)
	}
}
