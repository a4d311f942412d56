// A broker of ours for the page: started, asked over HTTP, told by its own commands, killed.
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const COMMAND_MAX_MS = 60_000;
const START_MAX_MS = 120_000;

export class Broker {
  constructor(binary) {
    this.binary = binary;
    this.data = mkdtempSync(join(tmpdir(), 'coroner-page-'));
    this.http = '127.0.0.1:0';
    this.amqp = '127.0.0.1:0';
  }

  /** Starts it; after a kill at the same addresses. */
  async start() {
    const words = ['serve', '--data', this.data, '--amqp', this.amqp, '--http', this.http, '--log', 'error'];
    this.process = spawn(this.binary, words, { stdio: ['ignore', 'pipe', 'inherit'] });
    let printed = '';
    await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`it does not start: ${printed}`)), START_MAX_MS);
      this.process.stdout.on('data', (piece) => {
        printed += piece;
        const amqp = /listening amqp (\S+)/.exec(printed);
        const http = /listening http (\S+)/.exec(printed);
        if (amqp && http && printed.includes('is ready')) {
          clearTimeout(late);
          [this.amqp, this.http] = [amqp[1], http[1]];
          resolve();
        }
      });
    });
    this.origin = `http://localhost:${this.http.split(':').at(-1)}`;
  }

  /** One of its commands; what it printed. */
  async command(...words) {
    const url = ['publish', 'consume'].includes(words[0]) ? `amqp://${this.amqp}` : `http://${this.http}`;
    const done = await run(this.binary, [...words, '--url', url], { timeout: COMMAND_MAX_MS });
    return done.stdout;
  }

  /** Asks the API; what it answered. */
  async ask(method, path, body, user = 'guest') {
    const answer = await fetch(`${this.origin}/api${path}`, {
      method,
      headers: {
        Authorization: `Basic ${btoa(`${user}:${user}`)}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    const text = await answer.text();
    return text === '' ? null : JSON.parse(text);
  }

  /** Publishes messages and rejects them, so that they are dead letters of their queue. */
  async kill(queue, bodies, condition, description, more = []) {
    for (const body of bodies) await this.command('publish', '--queue', queue, body);
    await this.command('consume', queue, '--count', String(bodies.length), '--outcome', 'reject',
      '--condition', condition, '--description', description, ...more);
  }

  /** Ends it as a power cut does. */
  async end(signal = 'SIGKILL') {
    const ended = new Promise((resolve) => this.process.once('exit', resolve));
    this.process.kill(signal);
    await ended;
  }

  /** Removes what it kept. */
  clean() {
    rmSync(this.data, { recursive: true, force: true });
  }
}
