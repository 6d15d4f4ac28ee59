// A line chart on a canvas: the newest value is on the right and has a dot. Colours come from the style sheet.

const HEADROOM = 1.15; // height of the scale, relative to the highest value

/**
 * Draw a chart.
 * @param {HTMLCanvasElement} canvas `color` is the colour of the line, `border-bottom-color` of the axis
 * @param {number[]} values oldest first
 * @param {number} minimumScale smallest end of the scale, so that noise does not fill the chart
 */
export function drawLineChart(canvas, values, minimumScale) {
  const ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const style = getComputedStyle(canvas);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.fillStyle = style.getPropertyValue("border-bottom-color");
  context.fillRect(0, height - 1, width, 1);
  if (!values.length) return;
  const top = HEADROOM * Math.max(minimumScale, ...values);
  const x = (i) => width - 5 - (values.length - 1 - i) * Math.min(8, (width - 8) / Math.max(1, values.length - 1));
  const y = (value) => height - 2 - (height - 8) * (value / top);
  const trace = () => {
    context.beginPath();
    values.forEach((value, i) => (i ? context.lineTo(x(i), y(value)) : context.moveTo(x(i), y(value))));
  };
  context.strokeStyle = context.fillStyle = style.color;
  context.lineWidth = 1.75;
  context.lineJoin = "round";
  trace(); // the area below the line
  context.lineTo(x(values.length - 1), height - 1);
  context.lineTo(x(0), height - 1);
  context.globalAlpha = 0.1;
  context.fill();
  context.globalAlpha = 1;
  trace(); // the line
  context.stroke();
  context.beginPath(); // the dot
  context.arc(x(values.length - 1), y(values.at(-1)), 3, 0, 2 * Math.PI);
  context.fill();
}
