// Nothing here is newer than Node 6: it runs only where Node is too old for the rest.
module.exports = (command, exitCode) => {
  const advice = `run \`npm i node@26\` in your project, then \`npx ${command} …\``;
  process.stderr.write(`${command}: needs Node 24 or newer, this is ${process.version}; ${advice}\n`);
  process.exitCode = exitCode;
};
