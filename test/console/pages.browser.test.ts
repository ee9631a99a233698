import { afterEach, expect, it } from 'vitest';
import { SteeredModel } from '../e2e/steered-model.ts';
import { startTestSms, stopAll } from '../registry/running-sms.ts';
import { applyTask, hello, putBlob } from '../registry/tasks/task-calls.ts';
import { useBrowser } from '../support/browser.ts';
import { openConsole } from './console-page.ts';
import { broken, notes, register, startNode, toolsSeen } from './running-node.ts';

const open = useBrowser();
/** For a machine that is busy with other things. */
const SLOWEST_MS = 180_000;
const model = new SteeredModel();

afterEach(async () => {
  await model.stop();
  await stopAll();
});

const task = JSON.stringify({
  name: 'review',
  config: { 'mcp.enabled': true, 'mcp.default_server_ids': ['notes'], 'mcp.tool_denylist': ['write_*'] },
});

it(
  'every page shows what a real registry, node and server are [console.pages] [console.accessible] [console.csp]',
  async (test) => {
    const sms = await startTestSms();
    await register(sms, notes);
    await register(sms, broken);
    await sms.http('POST', '/admin/api/mcp/profiles', {
      json: { name: 'reading', description: 'What a reader needs', server_ids: ['notes'], tool_denylist: ['write_*'] },
    });
    await putBlob(sms, hello);
    await applyTask(sms, JSON.parse(task));
    await startNode(sms, model);
    const request = await model.next();
    request.call('notes_read_text_file', { path: 'risks.md' });
    await model.next();
    await toolsSeen(sms, 'notes');
    const console = await openConsole(open, test, sms);
    const { page } = console;
    /** Whole: in dark and on a phone too. */
    const seen = async (name: string, whole = false) => {
      await page.emulateMedia({ colorScheme: 'light' });
      await console.expectClean();
      await console.picture(`${name}-light`);
      await page.emulateMedia({ colorScheme: 'dark' });
      await console.expectClean(['color-contrast']);
      if (!whole) return;
      await console.picture(`${name}-dark`);
      await page.setViewportSize({ width: 390, height: 780 });
      await console.expectClean(['color-contrast', 'scrollable-region-focusable', 'target-size']);
      await console.picture(`${name}-phone`);
      await page.setViewportSize({ width: 1280, height: 720 });
    };

    // By keyboard alone: past the menu, or through it.
    await page.getByRole('heading', { level: 1, name: 'Overview', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Skip to content' }).focus();
    await page.keyboard.press('Enter');
    expect(await page.evaluate('document.activeElement.id')).toBe('main');
    await page.setViewportSize({ width: 390, height: 780 });
    await page.getByRole('button', { name: 'Menu' }).press('Enter');
    await page.getByRole('navigation').getByRole('link', { name: 'Nodes' }).press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Nodes', exact: true }).waitFor();
    await page.getByRole('navigation').getByRole('link', { name: 'Nodes' }).waitFor({ state: 'hidden' });
    await page.setViewportSize({ width: 1280, height: 720 });

    await console.go('overview', 'Overview');
    await page.getByRole('link', { name: /Failing 1/ }).waitFor();
    await page.getByText('live', { exact: true }).waitFor();
    await seen('overview', true);

    await console.go('servers', 'Servers');
    await page.getByRole('row', { name: /notes Project notes .*connected/ }).waitFor();
    await page.getByRole('row', { name: /broken .*down/ }).waitFor();
    await seen('servers', true);

    await console.go('servers/notes', 'notes');
    await page.getByRole('row', { name: /read_text_file [0-9a-f]{16}… not pinned/ }).waitFor();
    await seen('server');

    await console.go('servers/notes/edit', 'Edit notes');
    await page.getByText('The server is valid').waitFor();
    await seen('server-edit');

    await console.go('profiles', 'Profiles');
    await page.getByRole('heading', { name: 'reading' }).waitFor();
    await seen('profiles');

    await console.go('access', 'Access');
    await page.getByLabel('Task configs').fill(task);
    await page.getByRole('button', { name: 'Show access' }).click();
    await page.getByRole('row', { name: /broken tools unknown .*denied/ }).waitFor();
    await page.getByRole('button', { name: 'notes', exact: true }).click();
    const row = page.getByRole('row', { name: /write_file .*denied task mcp.tool_denylist write_\*/ });
    await row.waitFor();
    await seen('access', true);
    await row.getByRole('button', { name: 'denied' }).click();
    await page.getByText(/To change this/).waitFor();
    await seen('access-walk');
    await page.keyboard.press('Escape');

    await page.getByRole('button', { name: 'Tasks of the registry' }).click();
    await page.getByText('Tasks 1 to 1 of 1, live revisions').waitFor();
    await page.getByRole('columnheader', { name: 'default/review@1' }).waitFor();
    await page.getByRole('row', { name: /^notes .*allowed/ }).waitFor();
    await seen('access-tasks');

    await console.go('nodes', 'Nodes');
    await page.getByRole('row', { name: /ready revision 2 .*1 connection/ }).waitFor();
    await seen('nodes', true);

    await console.go('people', 'Users');
    await seen('people');

    await console.go('audit', 'Audit log');
    await page.getByRole('button', { name: /sms.record_changed .*create · notes/ }).click();
    await page.getByRole('region', { name: 'Event' }).waitFor();
    await seen('audit');

    await console.go('approvals', 'Approvals');
    await page.getByText('No pending approvals').waitFor();
    await seen('approvals');
    expect(console.complaints()).toEqual([]);
  },
  SLOWEST_MS,
);
