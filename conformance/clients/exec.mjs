// What an agent written with @kubernetes/client-node does inside a container, as JSON.
import * as k8s from '@kubernetes/client-node';
import { Writable } from 'node:stream';

const config = new k8s.KubeConfig();
config.loadFromDefault();
const exec = new k8s.Exec(config);
const run = (command) => new Promise((resolve, reject) => {
  const out = { stdout: '', stderr: '' };
  const into = (name) => new Writable({ write(chunk, _, done) { out[name] += chunk; done(); } });
  exec.exec('shop', 'toolbox', 'toolbox', command, into('stdout'), into('stderr'), null, false, (status) => {
    out.status = status.status;
    const cause = (status.details?.causes ?? []).find((c) => c.reason === 'ExitCode');
    out.code = cause ? Number(cause.message) : 0;
    resolve(out);
  }).catch(reject);
});
const log = await new Promise((resolve, reject) => {
  let text = '';
  const sink = new Writable({ write(chunk, _, done) { text += chunk; done(); }, final(done) { resolve(text); done(); } });
  new k8s.Log(config).log('shop', process.env.POD, 'frontend', sink, { tailLines: 2, timestamps: true }).catch(reject);
});
console.log(JSON.stringify({
  open: await run(['nc', '-zv', 'redis.shop', '6379']),
  unknown: await run(['nc', '-zv', 'search', '81']),
  piped: await run(['sh', '-c', 'cat /etc/resolv.conf | head -1']),
  log,
}));
process.exit(0);
