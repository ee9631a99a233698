import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { FdOutput } from '../../../../src/runtime/guest/hostcalls/output.ts';

/** The descriptor of our end of a child's stdin: a pipe that answers EAGAIN when it is full. */
function pipeTo(child: ChildProcess): number {
  return (child.stdin as unknown as { _handle: { fd: number } })._handle.fd;
}

describe('the output of a guest', () => {
  it('is out when write returns, in its order', () => {
    const folder = mkdtempSync(join(tmpdir(), 'spear-output-'));
    const path = join(folder, 'stdout');
    const fd = openSync(path, 'w');
    const output = new FdOutput({ stdout: fd, stderr: fd });
    expect(output.write('stdout', Buffer.from('one '))).toBe(true);
    expect(output.write('stderr', Buffer.from('two '))).toBe(true);
    expect(output.write('stdout', new Uint8Array())).toBe(true);
    expect(readFileSync(path, 'utf8')).toBe('one two ');
    closeSync(fd);
    rmSync(folder, { recursive: true });
  });

  it('waits for a full pipe and loses nothing [output.full]', async () => {
    const reader = spawn('sh', ['-c', 'read start; cat | wc -c'], { stdio: ['pipe', 'pipe', 'inherit'] });
    const output = new FdOutput({ stdout: pipeTo(reader), stderr: 2 });
    const counted = text(reader.stdout);
    // the reader begins with the first line, so that the rest finds the pipe full again and again
    expect(output.write('stdout', Buffer.from('begin\n'))).toBe(true);
    expect(output.write('stdout', Buffer.alloc(8 * 1024 * 1024, 'x'))).toBe(true);
    reader.stdin.end();
    expect(Number(await counted)).toBe(8 * 1024 * 1024);
  });

  it('is dropped when its reader is gone, and the guest continues', () => {
    const folder = mkdtempSync(join(tmpdir(), 'spear-output-'));
    const path = join(folder, 'pipe');
    execFileSync('mkfifo', [path]);
    const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const writer = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
    const output = new FdOutput({ stdout: writer, stderr: 2 });
    expect(output.write('stdout', Buffer.from('x'))).toBe(true);
    closeSync(reader);
    for (let count = 0; count < 3; count++) expect(output.write('stdout', Buffer.from('x'))).toBe(true);
    closeSync(writer);
    rmSync(folder, { recursive: true });
  });

  it('that the system does not take is said to the guest', () => {
    const fd = openSync('/dev/full', 'w');
    const output = new FdOutput({ stdout: fd, stderr: 2 });
    expect(output.write('stdout', Buffer.from('x'))).toBe(false);
    closeSync(fd);
  });
});
